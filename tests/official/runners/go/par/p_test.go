package par

import (
	"testing"
	"time"
)

func TestP(t *testing.T) {
	for _, n := range []string{"a", "b", "c"} {
		n := n
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			time.Sleep(10 * time.Millisecond)
			if n == "b" {
				t.Fatal("no")
			}
			if n == "c" {
				t.SkipNow()
			}
		})
	}
}
