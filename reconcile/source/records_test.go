package source_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

const (
	recordRef = "refs/plumbline/eu/eu"
	otherRef  = "refs/plumbline/us/us"
	branchRef = "refs/heads/plumbline/records/eu/eu"
)

// recordOf is a commit without files, as Git stores it.
func recordOf(message string) []byte {
	by := "plumbline <plumbline@eu> 1700000000 +0000"
	return fmt.Appendf(nil, "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor %s\ncommitter %s\n\n%s\n", by, by, message)
}

func (c *client) push(t *testing.T, refs []string, message string) (string, error) {
	t.Helper()
	ref, err := c.git.PushRecord(t.Context(), c.request, refs, recordOf(message))
	if err != nil && strings.Contains(err.Error(), password) {
		t.Fatalf("the error holds the password: %v", err)
	}
	return ref, err
}

// TestRecords: a cluster pushes records, each of which replaces the one before, and another one reads them with the
// branch. The store of the branch does not grow with them.
func TestRecords(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	tip := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	writer, reader := newClient(t, h.url, source.Options{}), newClient(t, h.url, source.Options{})
	reader.request.Records = []string{recordRef, otherRef}
	if s := reader.mustFetch(t, v1alpha1.GitRef{}); s.Commit != tip || len(reader.git.Records(reader.request.Key).Of) != 0 {
		t.Fatal("there is no record yet")
	}
	for i := range 3 {
		message := fmt.Sprint("record ", i)
		if ref, err := writer.push(t, []string{recordRef, branchRef}, message); err != nil || ref != recordRef {
			t.Fatalf("pushed to %q: %v", ref, err)
		}
		packs := h.packs.Load()
		for range 2 { // the second fetch finds nothing new
			reader.mustFetch(t, v1alpha1.GitRef{})
			found := reader.git.Records(reader.request.Key)
			if got := string(found.Of[recordRef].Data); found.Failure != nil || got != string(recordOf(message)) || len(found.Of) != 1 {
				t.Fatalf("read %q of %v: %v", got, found.Of, found.Failure)
			}
		}
		if n := h.packs.Load() - packs; n != 1 {
			t.Errorf("%d packs were requested for one new record", n)
		}
	}
	packs, err := filepath.Glob(filepath.Join(reader.dir, "stores", "*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Errorf("the store has the packs %v, %v", packs, err)
	}
	git(t, h.repository, "", "fsck", "--strict")
	git(t, h.repository, "", "update-ref", "-d", recordRef)
	reader.mustFetch(t, v1alpha1.GitRef{})
	if found := reader.git.Records(reader.request.Key); len(found.Of) != 0 {
		t.Errorf("the deleted record is still there: %v", found.Of)
	}
}

// TestRecordsThatAreNone: a reference that points to something large or to no commit keeps neither the branch nor the
// records of others from being read.
func TestRecordsThatAreNone(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	h.commit(t, "main", files{"nodes/a.yaml": "1"})
	c := newClient(t, h.url, source.Options{})
	if _, err := c.push(t, []string{recordRef}, "good"); err != nil {
		t.Fatal(err)
	}
	h.commit(t, "evil", files{"large": strings.Repeat("x", 3<<20)})
	git(t, h.repository, "", "update-ref", otherRef, "refs/heads/evil")
	blob := strings.TrimSpace(git(t, h.repository, "text", "hash-object", "-w", "--stdin"))
	git(t, h.repository, "", "update-ref", "refs/plumbline/b/b", blob)
	c.request.Records = []string{recordRef, otherRef, "refs/plumbline/b/b"}
	for i := range 2 {
		c.mustFetch(t, v1alpha1.GitRef{})
		found := c.git.Records(c.request.Key)
		if found.Failure != nil || string(found.Of[recordRef].Data) != string(recordOf("good")) {
			t.Fatalf("the good record is not read: %+v", found)
		}
		if p := found.Of[otherRef].Problem; !strings.Contains(p, "too large") {
			t.Errorf("the large one: %q", p)
		}
		if p := found.Of["refs/plumbline/b/b"].Problem; !strings.Contains(p, "not point to a commit") {
			t.Errorf("the blob: %q", p)
		}
		if packs := h.packs.Load(); i == 1 && packs > 12 {
			t.Errorf("%d packs were requested", packs)
		}
	}
}

// TestRecordOfAHostWithoutSuchRefs: a host that takes no reference outside of refs/heads gets a branch, and one that takes
// nothing is named, with the reason.
func TestRecordOfAHostWithoutSuchRefs(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	h.commit(t, "main", files{"nodes/a.yaml": "1"})
	c := newClient(t, h.url, source.Options{})
	hook := func(script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(h.repository, "hooks/update"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hook(`case $1 in refs/plumbline/*) echo "only branches" >&2; exit 1;; esac`)
	for range 2 {
		ref, err := c.push(t, []string{recordRef, branchRef}, time.Now().String())
		if err != nil || ref != branchRef {
			t.Errorf("pushed to %q: %v", ref, err)
		}
	}
	hook("echo no >&2; exit 1")
	var refused *source.RecordPushError
	if _, err := c.push(t, []string{recordRef, branchRef}, "x"); !errors.As(err, &refused) || refused.Denied || !strings.Contains(err.Error(), branchRef) {
		t.Errorf("a host that takes nothing: %v", err)
	}
	git(t, h.repository, "", "config", "http.receivepack", "false")
	if _, err := c.push(t, []string{recordRef, branchRef}, "x"); !errors.As(err, &refused) || !refused.Denied {
		t.Errorf("credentials that may only read: %v", err)
	}
	if _, err := c.push(t, []string{"refs/heads/main"}, "x"); err == nil || errors.As(err, &refused) {
		t.Errorf("the branch itself was pushed to: %v", err)
	}
	h.handler = refusing(http.StatusServiceUnavailable)(h, h.handler)
	if _, err := c.push(t, []string{recordRef}, "x"); err == nil {
		t.Error("a host that is unavailable")
	}
}

// TestRecordsOverSSH: one connection carries one pack, so the records need another one.
func TestRecordsOverSSH(t *testing.T) {
	hostKey, _ := newKey(t)
	signer, plain := newKey(t)
	h := newSSHHost(t, signer.PublicKey(), hostKey)
	h.commit(t, "main", files{"nodes/a.yaml": "1"})
	c := newClient(t, h.url, source.Options{})
	c.request.Credentials = source.Credentials{Identity: plain, KnownHosts: knownHosts(h.addr, hostKey)}
	if _, err := c.push(t, []string{recordRef}, "over ssh"); err != nil {
		t.Fatal(err)
	}
	c.request.Records = []string{recordRef}
	c.mustFetch(t, v1alpha1.GitRef{})
	if found := c.git.Records(c.request.Key); found.Failure != nil || string(found.Of[recordRef].Data) != string(recordOf("over ssh")) {
		t.Errorf("read %+v", found)
	}
}

// TestBranch reads the history of a branch with a file of each commit, also after the store was lost, and picks an older
// commit, which is then the last Snapshot.
func TestBranch(t *testing.T) {
	h := newHost(t)
	var commits []string
	for i := range 6 {
		f := files{"nodes/a.yaml": fmt.Sprint(i)}
		if i > 0 && i < 5 {
			f["rings.yaml"] = fmt.Sprint("rings ", i/2)
		}
		if i == 5 {
			f["rings.yaml"] = "-> nodes/a.yaml"
		}
		commits = append(commits, h.commit(t, "main", f))
	}
	c := newClient(t, h.url, source.Options{})
	c.mustFetch(t, v1alpha1.GitRef{})
	b, err := c.git.Branch(t.Context(), c.request, source.BranchQuery{Reach: commits[0], File: "rings.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if b.Tip != commits[5] || len(b.Commits) != 6 {
		t.Fatalf("got %+v", b)
	}
	contents := map[string]bool{}
	for i, one := range b.Commits {
		n := 5 - i
		want := fmt.Sprint("rings ", n/2)
		if n == 0 || n == 5 {
			want = ""
		}
		if one.Hash != commits[n] || string(one.File) != want || (one.Problem != "") != (n == 5) || n > 0 && one.Parents[0] != commits[n-1] {
			t.Errorf("commit %d is %+v", n, one)
		}
		contents[one.Content] = true
	}
	if len(contents) != 6 {
		t.Error("commits with different files have the same content")
	}
	picked, err := c.git.Pick(t.Context(), c.request, commits[3])
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, picked)["nodes/a.yaml"]; got != "3" || picked.Revision != "main@sha1:"+commits[3] {
		t.Errorf("picked %s with %q", picked.Revision, got)
	}
	if o := c.git.Order(c.request.Key, commits[5]); o != source.OrderOlder {
		t.Errorf("the picked commit is %s compared with the tip", o)
	}
	if o := c.git.Order(c.request.Key, commits[0]); o != source.OrderNewer {
		t.Errorf("the picked commit is %s compared with the first one", o)
	}
}

// TestBranchThatWasReplaced: the commit that was taken is known even if a forced push has removed it from the branch, as
// long as the store or the host has it.
func TestBranchThatWasReplaced(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"nodes/a.yaml": "1"})
	taken := h.commit(t, "main", files{"nodes/a.yaml": "2"})
	c := newClient(t, h.url, source.Options{})
	c.mustFetch(t, v1alpha1.GitRef{})
	forced := h.orphan(t, "main", files{"nodes/a.yaml": "3"})
	c.mustFetch(t, v1alpha1.GitRef{})
	fresh := newClient(t, h.url, source.Options{})
	fresh.mustFetch(t, v1alpha1.GitRef{})
	git(t, h.repository, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	for name, c := range map[string]*client{"kept": c, "fresh": fresh} {
		b, err := c.git.Branch(t.Context(), c.request, source.BranchQuery{Reach: taken})
		hashes := map[string]bool{}
		for _, one := range b.Commits {
			hashes[one.Hash] = true
		}
		if err != nil || b.Tip != forced || !hashes[taken] || !hashes[forced] {
			t.Errorf("%s: got %+v, %v", name, b, err)
		}
	}
	var unknown *source.HistoryError
	if _, err := fresh.git.Branch(t.Context(), fresh.request, source.BranchQuery{Reach: strings.Repeat("1", 40)}); !errors.As(err, &unknown) {
		t.Errorf("a commit that the host does not have: %v", err)
	}
}

// TestBranchOfAnyShape: the line of the branch is read whatever the dates of its commits, and whatever was merged into it.
func TestBranchOfAnyShape(t *testing.T) {
	chain := func(branch, from string, n int, at int64) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "commit refs/heads/%s\ncommitter t <t@example.com> %d +0000\ndata 1\nx\n", branch, at+int64(i))
			if i == 0 && from != "" {
				fmt.Fprintf(&text, "from %s\n", from)
			}
			fmt.Fprintf(&text, "M 100644 inline n.yaml\ndata <<E\n%s %d\nE\n\n", branch, i)
		}
		return text.String()
	}
	now := time.Now().Unix()
	for name, shape := range map[string]func(h *host, taken string) (want string){
		"an old date": func(h *host, taken string) string {
			git(t, h.repository, chain("main", taken, 1, 1000), "fast-import", "--quiet", "--force")
			old := strings.TrimSpace(git(t, h.repository, "", "rev-parse", "main"))
			git(t, h.repository, chain("main", old, 210, now), "fast-import", "--quiet", "--force")
			return old
		},
		"a long history that was merged": func(h *host, taken string) string {
			merge := fmt.Sprintf("commit refs/heads/main\ncommitter t <t@example.com> %d +0000\ndata 1\nx\nfrom %s\nmerge refs/heads/other\n\n", now+5000, taken)
			git(t, h.repository, chain("other", "", maxOther, now+10)+merge, "fast-import", "--quiet", "--force")
			return taken
		},
		"many commits": func(h *host, taken string) string {
			git(t, h.repository, chain("main", taken, maxOther, now), "fast-import", "--quiet", "--force")
			return taken
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.commit(t, "main", files{"nodes/a.yaml": "1"})
			taken := h.commit(t, "main", files{"nodes/a.yaml": "2"})
			c := newClient(t, h.url, source.Options{})
			c.mustFetch(t, v1alpha1.GitRef{})
			want := shape(h, taken)
			c.mustFetch(t, v1alpha1.GitRef{})
			b, err := c.git.Branch(t.Context(), c.request, source.BranchQuery{Reach: taken})
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, one := range b.Commits {
				found[one.Hash] = true
			}
			if !found[want] || !found[taken] || !found[b.Tip] || len(b.Commits) > 3000 {
				t.Errorf("of %d commits: %s %t, taken %t, tip %t", len(b.Commits), want, found[want], found[taken], found[b.Tip])
			}
		})
	}
}

// maxOther is more than the commits that Branch reads beside the line.
const maxOther = 1100
