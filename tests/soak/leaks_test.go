package soak

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadGoroutines(t *testing.T) {
	got, err := readGoroutines(strings.NewReader(`goroutine profile: total 9
7 @ 0x1 0x2
#	0x1	k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive+0x9b	/mod/streamwatcher.go:105

2 @ 0x3
#	0x3	main.main+0x1	/main.go:1
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample{goroutines: 9, watches: 7}, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaks(t *testing.T) {
	l := leaks{}
	for _, s := range []sample{{goroutines: 100, watches: 9, memory: 80 << 20}, {goroutines: 120, watches: 9, memory: 120 << 20}} {
		if err := l.add(leads, s); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]sample{
		"goroutines": {goroutines: 150, watches: 9}, "watches": {goroutines: 100, watches: 12}, "memory": {goroutines: 100, watches: 9, memory: 300 << 20},
	} {
		if !errors.Is(l.add(leads, s), errViolation) {
			t.Errorf("more %s than in the beginning are no leak", name)
		}
	}
	few := sample{goroutines: 30}
	if err := l.add(follows, few); err != nil || l[follows].first != few {
		t.Errorf("the one that follows is held against the one that leads: %v", err)
	}
}
