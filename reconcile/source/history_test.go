package source_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// commitsBefore is the length of the history; each commit except the last hundred may contain a file of largeBlob
	// that the next commit removes.
	commitsBefore = 10_000
	largeBlob     = 1 << 20
	// pushes come after the first fetch.
	pushes = 20
	// tipFiles of tipFile bytes are in every commit.
	tipFiles, tipFile = 200, 1200
	// largestRSS limits the memory of a fetch.
	largestRSS = 250 << 20
)

var fetchURL = flag.String("fetch-url", "", "what the child of TestFetchOfALongHistory fetches")

// Fetching a repository of 10,000 commits and a large history takes as much as its tip only: little memory, and no more
// than three times the tip on disk, also after pushes and after reading the history.
func TestFetchOfALongHistory(t *testing.T) {
	if isChild(t) {
		fetchLongHistory(t)
		return
	}
	large := 40
	if _, full := os.LookupEnv("PLUMBLINE_FULL"); full {
		large = 1024
	}
	h := newHost(t)
	commits := h.longHistory(t, large)
	t.Logf("the host has %d MB", onDisk(t, h.repository)>>20)
	inner, asked := h.handler, 0
	h.mu.Lock()
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		if strings.HasSuffix(r.URL.Path, "/info/refs") && asked < len(commits) {
			h.point(t, "refs/heads/main", commits[asked]) // each request finds one more push
			asked++
		}
		h.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	h.mu.Unlock()
	said := child(t, "-fetch-url="+h.url)
	_, rest, _ := strings.Cut(said, "MEASURED ")
	var resident, disk int64
	if _, err := fmt.Sscan(rest, &resident, &disk); err != nil {
		t.Fatal(err, said)
	}
	t.Logf("RSS at most %d MB, on disk at most %d kB", resident>>20, disk>>10)
	if resident > largestRSS && !raced {
		t.Errorf("%d bytes were resident, more than %d", resident, largestRSS)
	}
	if tip := int64(tipFiles * tipFile * 3 / 4); disk > 3*tip {
		t.Errorf("%d bytes on disk, more than three times the tip of %d", disk, tip)
	}
}

// fetchLongHistory fetches repeatedly, and reports the maximum that it took.
func fetchLongHistory(t *testing.T) {
	c := newClient(t, *fetchURL, source.Options{})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	disk := onDisk(t, c.dir)
	inputs := inputsOf(t, s, "count.yaml")
	for range pushes {
		before := s.Commit
		s = c.mustFetch(t, v1alpha1.GitRef{})
		if got, err := c.since(t, before, inputs, 50); err != nil || len(got) != 1 || got[0] != s.Commit {
			t.Fatalf("since %s: %v, %v; want %s", before, got, err, s.Commit)
		}
		disk = max(disk, onDisk(t, c.dir))
	}
	// As after a restart: the applied commit is older than the clone.
	applied := s.Commit
	if err := c.git.Forget(c.request.Key); err != nil {
		t.Fatal(err)
	}
	s = c.mustFetch(t, v1alpha1.GitRef{})
	if got, err := c.since(t, applied, inputs, 50); err != nil || len(got) != 1 {
		t.Fatalf("since %s: %v, %v; want %s", applied, got, err, s.Commit)
	}
	disk = max(disk, onDisk(t, c.dir))
	fmt.Println("MEASURED", peak(t), disk)
}

// peak returns the process's maximum resident memory, in bytes.
func peak(t *testing.T) (kB int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell what was resident")
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatal(err)
	}
	return kB << 10
}

// longHistory creates the commits, and returns those of the last pushes and the one before them, oldest first.
func (h *host) longHistory(t *testing.T, large int) []string {
	t.Helper()
	read, write := io.Pipe()
	cmd := exec.CommandContext(t.Context(), "git", "-c", "core.compression=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = h.repository, environment(), read
	go func() {
		w := bufio.NewWriter(write)
		h.writeHistory(w, large)
		_ = write.CloseWithError(w.Flush())
	}()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v: %s", err, out)
	}
	newest := strings.Fields(git(t, h.repository, "", "rev-list", "--reverse", "-n", fmt.Sprint(pushes+2), "main"))
	if all := strings.TrimSpace(git(t, h.repository, "", "rev-list", "--count", "main")); all != fmt.Sprint(commitsBefore+1) {
		t.Fatalf("%s commits", all)
	}
	return newest
}

func (h *host) writeHistory(w io.Writer, large int) {
	r := newNoise()
	tip := files{}
	for i := range tipFiles {
		tip[fmt.Sprintf("nodes/%02d/%03d.yaml", i%10, i)] = noise(r, tipFile)
	}
	_, _ = io.WriteString(w, h.stream("main", "", tip))
	for i := range commitsBefore {
		change := files{"count.yaml": fmt.Sprint(i)}
		switch every := (commitsBefore - 100) / large; {
		case i >= every*large:
		case i%every == 0:
			change["large.bin"] = noise(r, largeBlob)
		case i%every == 1:
			change["large.bin"] = ""
		}
		_, _ = io.WriteString(w, h.stream("main", "", change))
	}
}

// ordered is a branch with a commit from before the first fetch, a fetched one, and later ones, of which the last was
// applied.
type ordered struct {
	host                          *host
	before, first, middle, latest string
}

func orderedHost(t *testing.T) ordered {
	t.Helper()
	h := newHost(t)
	o := ordered{host: h, before: h.commit(t, "main", files{"a": "0"})}
	o.first = h.commit(t, "main", files{"a": "1"})
	o.middle = h.commit(t, "main", files{"a": "2"})
	h.commit(t, "main", files{"a": "3"})
	o.latest = h.commit(t, "main", files{"a": "4"})
	return o
}

// TestOrderOfWhatWasFetched shows that the order of HEAD and the applied commit is known without querying the host.
func TestOrderOfWhatWasFetched(t *testing.T) {
	o := orderedHost(t)
	c := newClient(t, o.host.url, source.Options{})
	fetch := func(commit string) {
		o.host.point(t, "refs/heads/main", commit)
		c.mustFetch(t, v1alpha1.GitRef{})
	}
	want := func(commit string, order source.Order) {
		t.Helper()
		asked := o.host.asked.Load()
		if got := c.git.Order(c.request.Key, commit); got != order || o.host.asked.Load() != asked {
			t.Errorf("order of %s = %q, want %q; asked %d times", commit, got, order, o.host.asked.Load()-asked)
		}
	}
	fetch(o.first) // its parent is not fetched
	fetch(o.latest)
	want(o.latest, source.OrderNewer)
	want(o.first, source.OrderNewer)
	want(o.before, source.OrderUnknown)
	want(strings.Repeat("1", 40), source.OrderUnknown)
	want("", source.OrderUnknown)
	fetch(o.middle)
	want(o.latest, source.OrderOlder)
	want(o.first, source.OrderNewer)
	o.host.commit(t, "main", files{"a": "rebased"})
	c.mustFetch(t, v1alpha1.GitRef{})
	want(o.latest, source.OrderDiverged)
	want(o.middle, source.OrderNewer)
	if got := c.git.Order("nobody", o.latest); got != source.OrderUnknown {
		t.Errorf("nothing was fetched, and it is %s", got)
	}
}

// TestOrderThatTheHostKnows: after a restart, or with another ref, the store contains only HEAD, and the history in
// between is requested from the host.
func TestOrderThatTheHostKnows(t *testing.T) {
	cases := map[string]struct {
		head    func(*testing.T, ordered) v1alpha1.GitRef
		applied func(ordered) string
		gives   string // uploadpack.allowAnySHA1InWant
		want    source.Order
	}{
		"pushed while it was down": {applied: func(o ordered) string { return o.first }, want: source.OrderNewer},
		"set back": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.first)
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderOlder,
		},
		"set back, on a host that gives out what a ref leads to only": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.first)
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "false", want: source.OrderUnknown,
		},
		"an older tag": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/tags/v1", o.middle)
				return v1alpha1.GitRef{Tag: "v1"}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderOlder,
		},
		"rebased": {
			head: func(t *testing.T, o ordered) v1alpha1.GitRef {
				o.host.point(t, "refs/heads/main", o.middle)
				o.host.commit(t, "main", files{"a": "rebased"})
				return v1alpha1.GitRef{}
			},
			applied: func(o ordered) string { return o.latest }, gives: "true", want: source.OrderDiverged,
		},
		"of another repository": {applied: func(ordered) string { return strings.Repeat("ab", 20) }, gives: "true", want: source.OrderUnknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := orderedHost(t)
			if tc.gives != "" {
				git(t, o.host.repository, "", "config", "uploadpack.allowAnySHA1InWant", tc.gives)
			}
			ref := v1alpha1.GitRef{}
			if tc.head != nil {
				ref = tc.head(t, o)
			}
			c := newClient(t, o.host.url, source.Options{})
			c.mustFetch(t, ref)
			if got := c.git.Order(c.request.Key, tc.applied(o)); got != source.OrderUnknown {
				t.Fatalf("known without asking: %s", got)
			}
			got, err := c.git.FindOrder(t.Context(), c.request, tc.applied(o))
			if got != tc.want || (err != nil) != (tc.want == source.OrderUnknown) || err != nil && !as[*source.HistoryError](err) {
				t.Errorf("order = %q, %v; want %q", got, err, tc.want)
			}
			// What was fetched for it does not affect the next fetch.
			o.host.point(t, "refs/heads/main", o.latest)
			c.mustFetch(t, v1alpha1.GitRef{})
		})
	}
}

// inputsOf returns the identities of names in the last Snapshot.
func inputsOf(t *testing.T, s *render.Snapshot, names ...string) render.Inputs {
	t.Helper()
	in := render.Inputs{}
	for _, name := range names {
		in[name] = "" // stays empty if absent
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

// Pushed commits are in the store: only those that changed an input count, and the host is not queried.
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

// Only the newest commits are examined if there are more than the limit.
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

// A merge counts against its first parent, and the commits that it merges count too.
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

// After a restart the store contains only HEAD and is deepened once.
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
	// All of that history is in the store now.
	wantSince(t, c, older, inputs, want[:25]...)
	if h.packs.Load() != 2 {
		t.Errorf("%d packs: it was deepened again", h.packs.Load())
	}
	// The next fetch builds on it: it reverts to an older file, and to an older commit.
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

// TestSinceWaitsForNobodysFetch shows that pushed commits are read from the shared store while another NodeSync's fetch
// hangs.
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

// TestAHistoryIsAskedForOnce: the commits before a clone may be larger than the clone itself, and do not cause a new
// clone at each push.
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
