package sub

import "testing"

func TestPanic(t *testing.T) { panic("x") }
func TestNever(t *testing.T) {}
