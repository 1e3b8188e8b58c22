package source_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// inputs are the identities of names in the last Snapshot.
func inputsOf(t *testing.T, s *render.Snapshot, names ...string) render.Inputs {
	t.Helper()
	in := render.Inputs{}
	for _, name := range names {
		in[name] = "" // an absent one, and of any that is there its sort
		if id, err := s.FS.(render.Identified).Identity(name); err == nil {
			in[name] = id
		}
	}
	return in
}

func (c *client) since(t *testing.T, applied string, inputs render.Inputs, limit int) ([]string, error) {
	t.Helper()
	return c.git.FindSince(t.Context(), c.request, applied, render.Read{Inputs: inputs, Known: true}, limit)
}

func wantSince(t *testing.T, c *client, applied string, inputs render.Inputs, want ...string) {
	t.Helper()
	got, err := c.since(t, applied, inputs, 50)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What was pushed since is in the store: only what changed an input counts, and
// the host is not asked.
func TestSinceOfAnIncrement(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	applied := h.commit(t, "main", files{"nodes/a.yaml": "a", "nodes/b.yaml": "b", "link": "-> nodes/b.yaml", "README": "r"})
	c.mustFetch(t, v1alpha1.GitRef{})
	content := h.commit(t, "main", files{"nodes/a.yaml": "aa"})
	h.commit(t, "main", files{"README": "rr"})
	listing := h.commit(t, "main", files{"nodes/c.txt": "c"})
	linked := h.commit(t, "main", files{"nodes/b.yaml": "bb"})
	elsewhere := h.commit(t, "main", files{"link": "-> README"})
	arrived := h.commit(t, "main", files{"patch.yaml": "p"})
	h.commit(t, "main", files{"docs/x": "x"})
	astray := h.commit(t, "main", files{"link": "-> ../../etc/passwd"})
	back := h.commit(t, "main", files{"link": "-> README"})
	head := h.commit(t, "main", files{"nodes/a.yaml": "a"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	asked := h.asked.Load()
	inputs := inputsOf(t, s, "nodes/a.yaml", "nodes", "link")
	inputs["patch.yaml"] = "is:file"
	wantSince(t, c, applied, inputs, head, back, astray, arrived, elsewhere, linked, listing, content)
	wantSince(t, c, listing, inputsOf(t, s, "nodes/a.yaml"), head)
	wantSince(t, c, applied, inputsOf(t, s, "absent", "nodes/c.txt"), listing)
	wantSince(t, c, head, inputs)
	if h.asked.Load() != asked {
		t.Error("the host was asked for what is known")
	}
}

// The newest are looked at where there are more.
func TestSinceLooksAtNoMoreThanTheLimit(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	applied := h.commit(t, "main", files{"a.yaml": "a"})
	c.mustFetch(t, v1alpha1.GitRef{})
	var pushed []string
	for i := range 7 {
		pushed = append(pushed, h.commit(t, "main", files{"a.yaml": fmt.Sprint(i)}))
	}
	inputs := inputsOf(t, c.mustFetch(t, v1alpha1.GitRef{}), "a.yaml")
	got, err := c.since(t, applied, inputs, 5)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(got)
	if diff := cmp.Diff(pushed[2:], got); diff != "" {
		t.Error(diff)
	}
}

// A merge counts against its first parent, and what it merges counts, too.
func TestSinceOfAMerge(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	base := h.commit(t, "main", files{"a.yaml": "0", "b.yaml": "0"})
	c.mustFetch(t, v1alpha1.GitRef{})
	git(t, h.repository, "", "update-ref", "refs/heads/side", base)
	side := h.commit(t, "side", files{"b.yaml": "1"})
	applied := h.commit(t, "main", files{"a.yaml": "1"})
	merge := h.write(t, "main", "from refs/heads/main^0\nmerge refs/heads/side\n", files{"b.yaml": "1"})
	h.commit(t, "main", files{"README": "r"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	wantSince(t, c, applied, inputsOf(t, s, "a.yaml", "b.yaml"), merge, side)
	wantSince(t, c, base, inputsOf(t, s, "a.yaml"), applied)
}

// After a restart the store has HEAD alone: it is deepened once.
func TestSinceOfAClone(t *testing.T) {
	h := newHost(t)
	older := h.commit(t, "main", files{"nodes/a.yaml": "0"})
	applied := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	var want []string
	for i := range 30 {
		h.commit(t, "main", files{"README": fmt.Sprint(i)})
		want = append([]string{h.commit(t, "main", files{"nodes/a.yaml": fmt.Sprint("x", i)})}, want...)
	}
	c := newClient(t, h.url, source.Options{})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	inputs := inputsOf(t, s, "nodes/a.yaml")
	got, err := c.since(t, applied, inputs, 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if h.packs.Load() != 2 {
		t.Errorf("%d packs, want the clone and one to deepen it", h.packs.Load())
	}
	// All that it says about the past is in the store now.
	wantSince(t, c, older, inputs, want[:25]...)
	if h.packs.Load() != 2 {
		t.Errorf("%d packs: it was deepened again", h.packs.Load())
	}
	// And the next fetch builds on it: to an older file, and to an older commit.
	reverted := h.commit(t, "main", files{"nodes/a.yaml": "0"})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), reverted, map[string]string{"nodes/a.yaml": "0", "README": "29"})
	wantSince(t, c, want[0], inputs, reverted)
	h.point(t, "refs/heads/main", applied)
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), applied, map[string]string{"nodes/a.yaml": "1"})
	wantOneStore(t, c)
}

func TestSinceOfRewrites(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	first := h.commit(t, "main", files{"a.yaml": "1"})
	second := h.commit(t, "main", files{"a.yaml": "2"})
	third := h.commit(t, "main", files{"a.yaml": "3"})
	c.mustFetch(t, v1alpha1.GitRef{})
	t.Run("set back to an older commit", func(t *testing.T) {
		newer := third
		for _, older := range []string{second, first} {
			h.point(t, "refs/heads/main", older)
			wantSince(t, c, newer, inputsOf(t, c.mustFetch(t, v1alpha1.GitRef{}), "a.yaml"))
			newer = older
		}
	})
	t.Run("parted", func(t *testing.T) {
		h.point(t, "refs/heads/main", second)
		amended := h.commit(t, "main", files{"a.yaml": "amended"})
		wantSince(t, c, third, inputsOf(t, c.mustFetch(t, v1alpha1.GitRef{}), "a.yaml"), amended)
	})
	t.Run("unrelated", func(t *testing.T) {
		before := c.mustFetch(t, v1alpha1.GitRef{}).Commit
		h.orphan(t, "main", files{"a.yaml": "orphan"})
		h.commit(t, "main", files{"a.yaml": "its child"})
		git(t, h.repository, "", "gc", "-q", "--prune=now")
		s := c.mustFetch(t, v1alpha1.GitRef{})
		if got, err := c.since(t, before, inputsOf(t, s, "a.yaml"), 50); !as[*source.HistoryError](err) {
			t.Errorf("%v, %v: want a HistoryError", got, err)
		}
	})
}

func TestSinceThatCannotBeTold(t *testing.T) {
	h := newHost(t)
	applied := h.commit(t, "main", files{"a.yaml": "0"})
	r := newNoise()
	for range 5 {
		h.commit(t, "main", files{"a.yaml": noise(r, 500_000)})
	}
	h.commit(t, "main", files{"a.yaml": "1"})
	nowhere := strings.Repeat("ab", 20)
	cases := map[string]struct {
		applied string
		limit   int
		options source.Options
		upset   func(*testing.T, *client)
		is      func(error) bool
	}{
		"nothing applied":   {"", 50, source.Options{}, nil, as[*source.HistoryError]},
		"no commit":         {"main", 50, source.Options{}, nil, as[*source.HistoryError]},
		"no such commit":    {nowhere, 50, source.Options{}, nil, as[*source.HistoryError]},
		"further back":      {applied, 3, source.Options{}, nil, as[*source.HistoryError]},
		"larger than a MiB": {applied, 50, source.Options{}, nil, as[*source.HistoryError]},
		"a large file":      {applied, 50, source.Options{MaxObjectBytes: 1000}, nil, as[*source.HistoryError]},
		"forgotten":         {applied, 50, source.Options{}, func(t *testing.T, c *client) { _ = c.git.Forget(c.request.Key) }, as[*source.HistoryError]},
		"refused": {applied, 50, source.Options{}, func(_ *testing.T, c *client) { c.request.Credentials.Password = "wr0ng" }, func(err error) bool {
			var auth *source.AuthError
			return errors.As(err, &auth)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, h.url, tc.options)
			s := c.mustFetch(t, v1alpha1.GitRef{})
			if tc.upset != nil {
				tc.upset(t, c)
			}
			got, err := c.since(t, tc.applied, inputsOf(t, s, "a.yaml"), tc.limit)
			if !tc.is(err) {
				t.Fatalf("%v, %v", got, err)
			}
			c.request.Credentials.Password = password
			wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), s.Commit, map[string]string{"a.yaml": "1"})
		})
	}
}

// TestSinceWaitsForNobodysFetch: what was pushed is in the store that NodeSyncs
// share, whoever else fetches from a host that hangs.
func TestSinceWaitsForNobodysFetch(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	applied := h.commit(t, "main", files{"nodes/a.yaml": "a"})
	c.mustFetch(t, v1alpha1.GitRef{})
	changed := h.commit(t, "main", files{"nodes/a.yaml": "aa"})
	inputs := inputsOf(t, c.mustFetch(t, v1alpha1.GitRef{}), "nodes/a.yaml")

	hangs, goesOn := make(chan struct{}), make(chan struct{})
	h.mu.Lock()
	h.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(hangs); <-goesOn })
	h.mu.Unlock()
	other := c.request
	other.Key = "default/other"
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.git.Fetch(t.Context(), other)
		ended <- err
	}()
	<-hangs
	wantSince(t, c, applied, inputs, changed)
	select {
	case err := <-ended:
		t.Errorf("nothing hung: %v", err)
	default:
	}
	close(goesOn)
	if err := <-ended; err == nil {
		t.Error("the fetch that hung has found something, and nothing is served")
	}
}

// TestAHistoryIsAskedForOnce: the commits before a clone may be larger than the clone itself, and
// are no reason to clone again at each push.
func TestAHistoryIsAskedForOnce(t *testing.T) {
	h := newHost(t)
	random := rand.New(rand.NewPCG(1, 2))
	large := func() string {
		var s strings.Builder
		for range 20_000 {
			fmt.Fprintf(&s, "%x\n", random.Uint64())
		}
		return s.String()
	}
	applied := ""
	for range 6 {
		applied = h.commit(t, "main", files{"large": large(), "a.yaml": "a"})
	}
	head := h.commit(t, "main", files{"a.yaml": "b"})
	c := newClient(t, h.url, source.Options{})
	for i := range 5 {
		s := c.mustFetch(t, v1alpha1.GitRef{})
		if _, err := c.since(t, applied, inputsOf(t, s, "a.yaml"), 50); err != nil {
			t.Fatal(err)
		}
		if packs := h.packs.Swap(0); i > 0 && packs != 1 {
			t.Errorf("push %d took %d packs", i, packs)
		}
		applied, head = head, h.commit(t, "main", files{"a.yaml": fmt.Sprint(i)})
	}
}
