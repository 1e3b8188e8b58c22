package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// fleetHost is a real Git server, with a clone that commits are pushed from.
type fleetHost struct {
	*testing.T
	bare, clone, url string
	now              time.Time
}

func newFleetHost(t *testing.T) *fleetHost {
	t.Helper()
	root := t.TempDir()
	h := &fleetHost{T: t, bare: filepath.Join(root, "fleet.git"), clone: filepath.Join(root, "clone"), now: time.Now()}
	h.git(root, "init", "-q", "--bare", "-b", "main", h.bare)
	h.git(h.bare, "config", "http.receivepack", "true")
	h.git(root, "clone", "-q", h.bare, h.clone)
	backend := filepath.Join(h.git(root, "--exec-path"), "git-http-backend")
	server := httptest.NewServer(&cgi.Handler{
		Path: backend, Env: append(gitEnvironment(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Logger: log.New(io.Discard, "", 0), Stderr: io.Discard,
	})
	t.Cleanup(server.Close)
	h.url = server.URL + "/fleet.git"
	return h
}

func gitEnvironment() []string {
	return []string{
		"HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main",
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.com",
	}
}

func (h *fleetHost) git(dir string, args ...string) string {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), "git", args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, gitEnvironment(), &errs
	out, err := cmd.Output()
	if err != nil {
		h.Fatalf("git %v: %v: %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// push commits a text and rings.yaml, and returns the commit.
func (h *fleetHost) push(text string) string {
	h.Helper()
	for name, content := range map[string]string{promotion.File: fleetRings, "nodes.yaml": text} {
		if err := os.WriteFile(filepath.Join(h.clone, name), []byte(content), 0o600); err != nil {
			h.Fatal(err)
		}
	}
	h.git(h.clone, "add", ".")
	h.git(h.clone, "commit", "-q", "-m", text)
	h.git(h.clone, "push", "-q", "--force", "origin", "HEAD:main")
	return h.git(h.clone, "rev-parse", "HEAD")
}

// onlyGit is a source without Flux.
type onlyGit struct{ *source.Git }

func (onlyGit) Artifact(context.Context, types.NamespacedName, v1alpha1.SourceRef) (*source.Artifact, error) {
	return nil, errors.New("nothing follows Flux here")
}

// fellow is the daemon of a cluster of the fleet, as far as Git is concerned.
type fellow struct {
	*fleetHost
	sync      *v1alpha1.NodeSync
	identity  []byte
	source    *source.Git
	memory    *Memory
	publisher *Publisher
}

func (h *fleetHost) fellow(name, ring string, number byte, keys map[string]signature.Signer) *fellow {
	h.Helper()
	_, identity := clusterKey(h.T, number)
	f := &fellow{fleetHost: h, identity: identity, sync: &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "plumbline-system"}}}
	f.sync.Spec.Interval = metav1.Duration{Duration: time.Minute}
	f.sync.Spec.Source.Git = &v1alpha1.GitSource{URL: h.url}
	f.sync.Spec.Promotion = &v1alpha1.Promotion{Cluster: name, Ring: ring, SigningKey: v1alpha1.LocalReference{Name: "key"}}
	for _, cluster := range []string{"dev", "eu"} {
		f.sync.Spec.Promotion.Clusters = append(f.sync.Spec.Promotion.Clusters, v1alpha1.PromotionCluster{Name: cluster, Keys: []string{keys[cluster].Public()}})
	}
	f.restart()
	return f
}

// restart is a new process on a machine without the old one's disk.
func (f *fellow) restart() {
	f.source, f.memory, f.publisher = source.NewGit(source.Options{Dir: f.TempDir(), Timeout: time.Minute}), &Memory{}, &Publisher{}
}

// reconcile fetches, observes a commit, and pushes the record.
func (f *fellow) reconcile(o promotion.Observed) (commit, waits string) {
	f.Helper()
	f.now = f.now.Add(90 * time.Second)
	s := &Step{Sync: f.sync, Memory: f.memory, Now: f.now, Own: f.publisher.Record(), Tools: Tools{
		Source: onlyGit{f.source}, HideCredential: func(string) {},
		Secret: func(context.Context, string) (*corev1.Secret, error) {
			return &corev1.Secret{Data: map[string][]byte{"identity": f.identity}}, nil
		},
	}}
	found, err := s.Fetch(f.Context())
	if found.Snapshot != nil {
		s.Take(found.Snapshot)
		commit = found.Snapshot.Commit
	} else if err == nil {
		f.Fatal("neither a Snapshot nor an error")
	}
	if found.Unfetched != nil {
		f.Fatal(found.Unfetched)
	}
	own, read := s.OwnRecord()
	f.publisher.Begin(MemberOf(f.sync), own, read)
	if o.Commit != "" {
		f.publisher.Note(o, f.now)
	}
	var next finding.Findings
	f.publisher.Push(f.Context(), Push{
		Sign: s.SignRecord(), Send: s.SendRecord(), SilentAfter: s.SilentAfter(), Now: f.now, Done: func() {},
		StillLeader: func(context.Context) error { return nil }, Hide: func(text string) string { return text },
	}, &next)
	for busy := true; busy && f.Context().Err() == nil; {
		f.publisher.mu.Lock()
		busy = f.publisher.pushing
		f.publisher.mu.Unlock()
		<-time.After(time.Millisecond)
	}
	if failure := f.publisher.State().Failure; failure != "" {
		f.Fatal(failure)
	}
	if w := f.sync.Status.Promotion.Waits; len(w) > 0 {
		waits = w[0].Reason
	}
	return commit, waits
}

// TestFleetOnRealGit: two clusters follow a branch of a real Git server, and tell each other by records in it.
func TestFleetOnRealGit(t *testing.T) {
	h := newFleetHost(t)
	devKey, _ := clusterKey(t, 1)
	euKey, _ := clusterKey(t, 2)
	keys := map[string]signature.Signer{"dev": devKey, "eu": euKey}
	a := h.push("a")
	dev, eu := h.fellow("dev", "canary", 1, keys), h.fellow("eu", "prod", 2, keys)
	expect := func(of *fellow, o promotion.Observed, commit, waits string) {
		t.Helper()
		if got, why := of.reconcile(o); got != commit || why != waits {
			t.Fatalf("%s took %q, which waits %q; want %q, %q: %+v", of.sync.Name, got, why, commit, waits, of.sync.Status.Promotion)
		}
	}
	none := promotion.Observed{}
	good := func(commit string) promotion.Observed { return promotion.Observed{Commit: commit, RolledOut: true} }
	expect(eu, none, "", "ClusterSilent")
	expect(dev, good(a), a, "")
	expect(eu, good(a), a, "")
	b := h.push("b")
	expect(eu, none, a, "WaitsForRing")
	expect(dev, promotion.Observed{Commit: b, Failed: "braked"}, b, "")
	expect(eu, none, a, "FailedInRing")
	c := h.push("c")
	expect(eu, none, a, "WaitsForRing")
	expect(dev, good(c), c, "")
	eu.restart()
	expect(eu, good(c), c, "")
	if refs := h.git(h.bare, "for-each-ref", "--format=%(refname)", "refs/plumbline"); refs != "refs/plumbline/dev/dev\nrefs/plumbline/eu/eu" {
		t.Errorf("the references are %q", refs)
	}
	d := h.push("d")
	old := h.git(h.bare, "rev-parse", "refs/plumbline/dev/dev")
	h.git(h.bare, "update-ref", "-d", "refs/plumbline/dev/dev")
	expect(eu, none, c, "ClusterSilent")
	h.git(h.bare, "update-ref", "refs/plumbline/dev/dev", d) // a commit that no cluster has signed
	eu.restart()
	expect(eu, none, c, "ClusterSilent")
	expect(dev, good(d), d, "")
	expect(eu, good(d), d, "")
	h.git(h.bare, "update-ref", "refs/plumbline/dev/dev", old) // replayed
	h.git(h.clone, "reset", "-q", "--hard", a)
	forced := h.push("forced")
	expect(eu, none, d, "ClusterSilent")
	expect(dev, good(forced), forced, "")
	expect(eu, good(forced), forced, "")
	h.git(h.bare, "fsck", "--strict")
}
