package source

import (
	"math"
	"testing"
)

func TestDeltaHead(t *testing.T) {
	cases := map[string]struct {
		parts []string
		want  int64
	}{
		"small":       {[]string{"\x05\x07rest"}, 7},
		"two bytes":   {[]string{"\x05\x80\x01rest"}, 128},
		"large":       {[]string{"\x80\x80\x40\x80\x80\x80\x32rest"}, 100 << 20},
		"in parts":    {[]string{"\x85", "\x01\x80", "\x01", "rest"}, 128},
		"too large":   {[]string{"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, math.MaxInt64},
		"cut off":     {[]string{"\x05\x80"}, 0},
		"nothing":     {nil, 0},
		"one endless": {[]string{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var d deltaHead
			for _, p := range c.parts {
				if n, err := d.Write([]byte(p)); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := d.result(); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
