package ok

import "testing"

func TestOne(t *testing.T) {}
func TestTwo(t *testing.T) {
	t.Log("x (0.00s)")
	t.Run("a/b", func(t *testing.T) { t.Run("c d", func(t *testing.T) {}) })
}
func ExampleX() { println("e") }
