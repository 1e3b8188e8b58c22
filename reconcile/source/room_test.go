package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLoadOfAPack(t *testing.T) {
	for name, c := range map[string]struct {
		load load
		want int64
	}{
		"nothing":                     {load{}, 0},
		"a push":                      {load{objects: 10, content: 20_000, largest: 4000}, 8000},
		"with deltas":                 {load{objects: 10, content: 20_000, largest: 4000, deltas: deltas{{}}}, 36_000},
		"many objects":                {load{objects: DefaultMaxObjects, content: 1 << 20}, 100_000_000},
		"a large file":                {load{objects: 3, content: 64 << 20, largest: 64 << 20}, 64<<20 + 1200},
		"deltas of a large file":      {load{content: 1 << 30, largest: 64 << 20, deltas: deltas{{}}}, (3*64 + 96) << 20},
		"no more than there is of it": {load{content: 30 << 20, largest: 10 << 20, deltas: deltas{{}}}, 60 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.load.memory(); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}

// TestFetchesThatTakeTooMuchMemory are refused before they are indexed: the Deployment's memory must also suffice for
// two children.
func TestFetchesThatTakeTooMuchMemory(t *testing.T) {
	most := (&Git{options: NewGit(Options{}).options}).limits()
	pack := packOf(t, strings.Repeat("0", 3<<20))
	for name, c := range map[string]struct {
		memory  int64
		refused bool
	}{
		"by default": {most.memory, false},
		"too much":   {3 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newStore(t.TempDir(), newRoom(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.remove() }()
			most.memory = c.memory
			err = s.ingest(t.Context(), bytes.NewReader(pack), most)
			var limit *LimitError
			if errors.As(err, &limit) != c.refused || !c.refused && err != nil {
				t.Fatalf("error %v", err)
			}
			if want := "the memory that it takes to read the repository, whose largest object has 3145728 bytes, is larger than the limit of 3145728 bytes"; c.refused && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	worst := load{objects: DefaultMaxObjects, content: 1 << 30, largest: DefaultMaxObjectBytes, deltas: deltas{{}}}
	if worst.memory() <= DefaultMaxMemory {
		t.Errorf("%d bytes are within the limit, so that it bounds nothing", worst.memory())
	}
}

// TestLargeFetchesTakeTurns shows that two packs at the limits are not indexed at the same time, and that a small one
// of another repository waits for neither.
func TestLargeFetchesTakeTurns(t *testing.T) {
	shared, most := newRoom(), (&Git{options: NewGit(Options{}).options}).limits()
	ingest := func(ctx context.Context, pack []byte) error {
		s, err := newStore(t.TempDir(), shared, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.remove() }()
		return s.ingest(ctx, bytes.NewReader(pack), most)
	}
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprint(i))
	}
	large, push := packOf(t, strings.Repeat("0", 32<<20)), packOf(t, texts...)

	back, err := shared.acquire(t.Context(), load{objects: DefaultMaxObjects, content: 1 << 30, largest: DefaultMaxObjectBytes, deltas: deltas{{}}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ingest(t.Context(), large) }()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ingest(short, large); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a large pack beside another: error %v, want %v", err, context.DeadlineExceeded)
	}
	if err := ingest(t.Context(), push); err != nil {
		t.Errorf("a small pack beside a large one: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("a large pack was indexed beside another, %v", err)
	default:
	}
	back()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("a large pack after another: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a large pack waits although there is room")
	}
	if !shared.free.TryAcquire(maxIndexed) {
		t.Error("room that was taken is not given back")
	}
}
