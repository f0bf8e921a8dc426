package calc

import (
	"fmt"
	"testing"
)

func TestAdd(t *testing.T) {
	fmt.Println("--- PASS: TestFake (0.00s)")
	t.Run("case one", func(t *testing.T) {})
	t.Run("bad", func(t *testing.T) { t.Error("no") })
}
func TestSkip(t *testing.T) { t.Skip("later") }
func TestGood(t *testing.T) {}
