package source_test

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// TestStoresShareTheirSpace: two repositories that fit one by one do not fit together. The second is not fetched, the first
// goes on, also with a new clone in place of the old one, and what is forgotten leaves room for the second.
func TestStoresShareTheirSpace(t *testing.T) {
	r := newNoise()
	first, second := newHost(t), newHost(t)
	first.commit(t, "main", files{"noise": noise(r, 3<<20)})
	second.commit(t, "main", files{"noise": noise(r, 3<<20)})
	c := newClient(t, first.url, source.Options{MaxBytes: 4 << 20, Space: &source.Space{Limit: 4 << 20}})
	c.mustFetch(t, v1alpha1.GitRef{})
	fetchSecond := func() error {
		_, _, err := c.git.Fetch(t.Context(), source.Request{Key: "default/second", URL: second.url, Credentials: c.request.Credentials})
		return err
	}
	var full *source.SpaceError
	if err := fetchSecond(); !errors.As(err, &full) || full.Limit != 4<<20 {
		t.Fatalf("error %v, want a SpaceError of 4 MiB", err)
	}
	rewritten := first.commit(t, "main", files{"noise": noise(r, 3<<20)})
	if got := c.mustFetch(t, v1alpha1.GitRef{}); got.Commit != rewritten {
		t.Errorf("commit %s, want %s", got.Commit, rewritten)
	}
	if err := c.git.Forget(c.request.Key); err != nil {
		t.Fatal(err)
	}
	if err := fetchSecond(); err != nil {
		t.Errorf("with room for it: %v", err)
	}
}

// TestAPartOfTheSpace: what a part takes counts for the whole, and a part takes no more than its own limit.
func TestAPartOfTheSpace(t *testing.T) {
	whole := &source.Space{Limit: 10}
	part := &source.Space{Limit: 5, Of: whole}
	var full *source.SpaceError
	if err := part.Take(6); !errors.As(err, &full) || full.Limit != 5 {
		t.Errorf("6 of 5: %v", err)
	}
	if err := part.Take(5); err != nil {
		t.Errorf("5 of 5: %v", err)
	}
	if err := whole.Take(6); !errors.As(err, &full) || full.Limit != 10 {
		t.Errorf("11 of 10: %v", err)
	}
	part.Add(-5)
	if err := whole.Take(10); err != nil {
		t.Errorf("10 of 10: %v", err)
	}
	if err := part.Take(1); !errors.As(err, &full) || full.Limit != 10 {
		t.Errorf("a part of a full space: %v", err)
	}
}
