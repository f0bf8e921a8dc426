package broken

import "testing"

func TestB(t *testing.T) { undefined() }
