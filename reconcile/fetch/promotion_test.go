package fetch

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gossh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

const fleetRings = `apiVersion: config.plumbline.dev/v1alpha1
kind: Rings
clusters: [{name: dev}, {name: eu}]
rings:
- {name: canary, clusters: [dev]}
- {name: prod, clusters: [eu], soak: 1h}
`

// repository is a Git host with a branch and records.
type repository struct {
	Source
	commits []source.BranchCommit // newest first
	records source.Records
	picked  string
	down    error
	lost    bool // the host does not have the commit that was taken
	signer  string
	pushes  []string
	refuses int // so many pushes fail
	files   map[string]fstest.MapFS
}

func (r *repository) Fetch(_ context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	if r.down != nil {
		return nil, req.NotBefore, r.down
	}
	return snapshotOf(r.commits[0].Hash), req.NotBefore, nil
}

func snapshotOf(commit string) *render.Snapshot {
	return &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
}

func (r *repository) Branch(_ context.Context, _ source.Request, q source.BranchQuery) (source.Branch, error) {
	if r.lost && q.Reach != "" {
		return source.Branch{}, &source.HistoryError{Since: q.Reach, Reason: "the host does not give it out"}
	}
	return source.Branch{Tip: r.commits[0].Hash, Commits: r.commits}, nil
}

func (r *repository) Records(string) source.Records { return r.records }

func (r *repository) Pick(_ context.Context, _ source.Request, commit string) (*render.Snapshot, error) {
	r.picked = commit
	return snapshotOf(commit), nil
}

func (r *repository) At(_, commit string) (*render.Snapshot, error) {
	if r.files[commit] == nil {
		return nil, errors.New("not in the store")
	}
	return &render.Snapshot{Commit: commit, FS: r.files[commit]}, nil
}

func (r *repository) SignerOf(string, string, signature.Keys, time.Time) (string, error) {
	if r.signer == "" {
		return "", &signature.Error{Object: "commit", Problem: "is not signed"}
	}
	return r.signer, nil
}

func (r *repository) PushRecord(_ context.Context, _ source.Request, refs []string, data []byte) (string, error) {
	if r.refuses > 0 {
		r.refuses--
		return "", &source.RecordPushError{URL: "https://git.example.com", Ref: refs[0], Err: errors.New("no")}
	}
	r.pushes = append(r.pushes, refs[0]+" "+string(data))
	return refs[0], nil
}

// commit adds a commit on top of the branch.
func (r *repository) commit(hash, rings string) {
	c := source.BranchCommit{Hash: hash, File: []byte(rings), FileID: fmt.Sprint(len(rings), rings), Content: hash}
	if rings == "" {
		c.FileID = ""
	}
	if len(r.commits) > 0 {
		c.Parents = []string{r.commits[0].Hash}
	}
	r.commits = append([]source.BranchCommit{c}, r.commits...)
}

// clusterKey is the private key of a cluster, in PEM form, and its public key.
func clusterKey(t *testing.T, number byte) (signature.Signer, []byte) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	block, err := gossh.MarshalPrivateKey(ed25519.NewKeyFromSeed(seed), "")
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(block)
	signer, err := signature.NewSigner(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer, text
}

// says makes a cluster report on a commit.
func (r *repository) says(t *testing.T, signer signature.Signer, cluster string, serial int64, at time.Time, v ...promotion.Verdict) {
	t.Helper()
	record := promotion.Record{Cluster: cluster, NodeSync: cluster, Serial: serial, At: at, Verdicts: v}
	data, err := record.Commit(signer.Sign)
	if err != nil {
		t.Fatal(err)
	}
	if r.records.Of == nil {
		r.records.Of = map[string]source.Record{}
	}
	r.records.Of["refs/plumbline/"+cluster+"/"+cluster] = source.Record{Hash: strings.Repeat("ab", 20), Data: data}
}

// promotes is a cluster "eu" in ring prod, behind "dev".
type promotes struct {
	*testing.T
	repo   *repository
	sync   *v1alpha1.NodeSync
	memory *Memory
	now    time.Time
	dev    signature.Signer
	own    *promotion.Record
}

func newPromotes(t *testing.T) *promotes {
	t.Helper()
	dev, _ := clusterKey(t, 1)
	eu, _ := clusterKey(t, 2)
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "eu", Namespace: "plumbline-system"}}
	sync.Spec.Interval = metav1.Duration{Duration: time.Minute}
	sync.Spec.Source.Git = &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}
	sync.Spec.Promotion = &v1alpha1.Promotion{
		Cluster: "eu", Ring: "prod", SigningKey: v1alpha1.LocalReference{Name: "key"},
		Clusters: []v1alpha1.PromotionCluster{{Name: "dev", Keys: []string{dev.Public()}}, {Name: "eu", Keys: []string{eu.Public()}}},
	}
	p := &promotes{T: t, repo: &repository{}, sync: sync, memory: &Memory{}, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), dev: dev}
	p.repo.commit("a", fleetRings)
	sync.Status.LastAppliedRevision = "main@sha1:a"
	return p
}

func (p *promotes) fetch() (Fetched, error) {
	p.Helper()
	p.now = p.now.Add(2 * time.Minute)
	s := &Step{Sync: p.sync, Memory: p.memory, Now: p.now, Own: p.own, Tools: Tools{
		Source: p.repo, HideCredential: func(string) {},
		Secret: func(context.Context, string) (*corev1.Secret, error) {
			_, text := clusterKey(p.T, 2)
			signer, _ := clusterKey(p.T, 3)
			return &corev1.Secret{Data: map[string][]byte{"identity": text, "alice.sshpub": []byte(signer.Public())}}, nil
		},
	}}
	found, err := s.Fetch(p.Context())
	if err == nil {
		s.Take(found.Snapshot)
	}
	return found, err
}

// expect fetches, and checks which commit is taken and what the newest one waits for.
func (p *promotes) expect(commit, reason string) {
	p.Helper()
	found, err := p.fetch()
	if err != nil || found.Unfetched != nil {
		p.Fatal(err, found.Unfetched)
	}
	got := ""
	if waits := p.sync.Status.Promotion.Waits; len(waits) > 0 {
		got = waits[0].Reason
	}
	if found.Snapshot.Commit != commit || p.sync.Status.Promotion.Taken != commit || got != reason {
		p.Fatalf("got %s (taken %s), which waits %q (%+v); want %s, %q", found.Snapshot.Commit, p.sync.Status.Promotion.Taken, got, p.sync.Status.Promotion.Waits, commit, reason)
	}
}

func (p *promotes) good(commit string, since time.Time) promotion.Verdict {
	return promotion.Verdict{Commit: commit, State: promotion.Succeeded, Since: since, Effect: promotion.Effect{Nodes: 5, Of: 10}}
}

// TestPromoted: a commit waits until the ring before has succeeded and it has soaked, also if nothing is fetched anew.
func TestPromoted(t *testing.T) {
	p := newPromotes(t)
	p.expect("a", "")
	p.repo.commit("b", fleetRings)
	p.expect("a", "ClusterSilent")
	p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now)
	p.expect("a", "WaitsForRing")
	since := p.now
	p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, p.good("b", since))
	p.expect("a", "Soaking")
	p.now = p.now.Add(50 * time.Minute)
	p.expect("a", "Soaking")
	p.now = p.now.Add(20 * time.Minute)
	p.expect("a", "ClusterSilent")
	p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, p.good("b", since))
	p.expect("b", "")
	if by := p.sync.Status.Promotion.By; by != "Rings" {
		t.Errorf("taken by %q", by)
	}
	p.memory = &Memory{} // a new process continues with the commit that was taken
	p.repo.records = source.Records{}
	p.expect("b", "")
}

// TestProofOfRecords: a record that is forged, older or deleted is not believed, also by a new process.
func TestProofOfRecords(t *testing.T) {
	for name, spoil := range map[string]func(p *promotes){
		"forged": func(p *promotes) {
			forger, _ := clusterKey(p.T, 9)
			p.repo.says(p.T, forger, "dev", p.now.Unix()+100, p.now, p.good("b", p.now.Add(-9*time.Hour)))
		},
		"older":   func(p *promotes) { p.repo.says(p.T, p.dev, "dev", 5, p.now, p.good("b", p.now.Add(-9*time.Hour))) },
		"deleted": func(p *promotes) { p.repo.records = source.Records{} },
		"large": func(p *promotes) {
			p.repo.records.Of["refs/plumbline/dev/dev"] = source.Record{Hash: "x", Problem: "the reference points to something too large for a record"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPromotes(t)
			p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, promotion.Verdict{Commit: "a", State: promotion.Succeeded, Since: p.now})
			p.expect("a", "")
			p.repo.commit("b", fleetRings)
			spoil(p)
			p.expect("a", "ClusterSilent")
			p.memory = &Memory{}
			p.expect("a", "ClusterSilent")
		})
	}
}

// TestUnpromoted: an error that a person has to resolve names it, and what was taken stays.
func TestUnpromoted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *promotes)
		want   string
	}{
		"in no ring":   {func(p *promotes) { p.sync.Spec.Promotion.Cluster = "ap" }, "rings.yaml has cluster ap/eu in no ring"},
		"another ring": {func(p *promotes) { p.sync.Spec.Promotion.Ring = "canary" }, "has cluster eu/eu in ring prod"},
		"no key":       {func(p *promotes) { p.sync.Spec.Promotion.Clusters[0].Keys = []string{"ssh-ed25519 nonsense"} }, "clusters[0].keys of dev/dev"},
		"listed twice": {func(p *promotes) {
			p.sync.Spec.Promotion.Clusters[1].Name = "dev"
			p.sync.Spec.Promotion.Clusters[1].NodeSync = "dev"
		}, "listed twice"},
		"lost":           {func(p *promotes) { p.repo.lost = true }, "back to the commit that was taken last"},
		"never any file": {func(p *promotes) { p.repo.commits = nil; p.repo.commit("a", "") }, "no commit has a rings.yaml"},
		"invalid": {func(p *promotes) {
			p.repo.commits = nil
			p.repo.commit("a", "")
			p.repo.commit("b", "kind: Rings\nrings: 1\n")
		}, "rings.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPromotes(t)
			c.change(p)
			found, err := p.fetch()
			if err != nil {
				t.Fatal(err)
			}
			wrong := fault.Classify(found.Unfetched)
			if wrong == nil || wrong.Class != fault.Terminal || wrong.Reason != v1alpha1.ReasonPromotionFailed || !strings.Contains(wrong.Error(), c.want) {
				t.Errorf("got %v, want %q", wrong, c.want)
			}
			if found.Snapshot == nil || found.Snapshot.Commit != "a" {
				t.Errorf("the commit that was taken is gone: %+v", found.Snapshot)
			}
		})
	}
}

// TestHostIsDown: the commit that was taken stays, and nothing is decided.
func TestHostIsDown(t *testing.T) {
	p := newPromotes(t)
	p.expect("a", "")
	p.repo.commit("b", fleetRings)
	p.repo.down = errors.New("no route to host")
	found, err := p.fetch()
	if err != nil || found.Unfetched == nil || found.Snapshot.Commit != "a" {
		t.Errorf("got %+v, %v", found, err)
	}
	p.repo.down, p.repo.records.Failure = nil, errors.New("records: no route to host")
	p.expect("a", "ClusterSilent")
}

// TestNewCluster: a cluster that has applied nothing takes nothing until a commit has passed.
func TestNewCluster(t *testing.T) {
	p := newPromotes(t)
	p.sync.Status.LastAppliedRevision = ""
	if _, err := p.fetch(); fault.Classify(err) == nil || fault.Classify(err).Class != fault.Waiting {
		t.Errorf("got %v", err)
	}
	p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, p.good("a", p.now.Add(-2*time.Hour)))
	p.expect("a", "")
}

// TestEmergency: only a commit that one of the emergency signers has signed needs no soak.
func TestEmergency(t *testing.T) {
	p := newPromotes(t)
	p.repo.commit("b", fleetRings)
	p.repo.commits[0].Trailer = "CVE-2026-1"
	p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, p.good("b", p.now))
	p.expect("a", "Soaking")
	p.sync.Spec.Promotion.EmergencySigners = &v1alpha1.LocalReference{Name: "signers"}
	p.sync.Generation++
	p.expect("a", "Soaking")
	p.repo.signer = "alice"
	p.sync.Generation++
	p.expect("b", "")
	if s := p.sync.Status.Promotion; s.By != "Emergency" || s.EmergencySigner != "alice" {
		t.Errorf("got %+v", s)
	}
}

// TestRevertOfWhatIsRead: a commit that returns to what this cluster has read is a revert, also if it differs elsewhere.
// Its rings.yaml must not be new.
func TestRevertOfWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		pool, rings, want string
	}{
		"a revert":                    {"1", fleetRings, "c"},
		"another change":              {"3", fleetRings, "b"},
		"a revert that changes rings": {"1", strings.Replace(fleetRings, "kind: Rings\n", "kind: Rings\nsilentAfter: 2h\n", 1), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPromotes(t)
			p.repo.says(t, p.dev, "dev", p.now.Unix(), p.now, p.good("b", p.now.Add(-2*time.Hour)), p.good("a", p.now.Add(-3*time.Hour)))
			p.repo.files = map[string]fstest.MapFS{"c": {"eu/pool.yaml": {Data: []byte(c.pool)}, "us/pool.yaml": {Data: []byte("another team")}}}
			at := func(pool string) render.Inputs {
				inputs, err := render.Inputs{"eu/pool.yaml": "sha256:"}.At(render.Snapshot{FS: fstest.MapFS{"eu/pool.yaml": {Data: []byte(pool)}}})
				if err != nil {
					t.Fatal(err)
				}
				return inputs
			}
			p.expect("a", "")
			p.memory.Rendered("a", at("1"))
			p.repo.commit("b", fleetRings)
			p.expect("b", "")
			p.memory.Rendered("b", at("2"))
			own := promotion.Record{Cluster: "eu", NodeSync: "eu", Verdicts: []promotion.Verdict{
				{Commit: "b", State: promotion.Failed, Since: p.now}, {Commit: "a", State: promotion.Succeeded, Since: p.now.Add(-time.Hour)},
			}}
			p.own = &own
			p.repo.commit("c", c.rings)
			found, err := p.fetch()
			if err != nil || found.Snapshot.Commit != c.want {
				t.Errorf("took %+v, %v; %+v", found.Snapshot, err, p.sync.Status.Promotion)
			}
		})
	}
}

// TestWithoutPromotion: each commit is taken at once, and nothing remains of the rings.
func TestWithoutPromotion(t *testing.T) {
	p := newPromotes(t)
	p.repo.commit("b", fleetRings)
	p.expect("a", "ClusterSilent")
	p.sync.Spec.Promotion = nil
	found, err := p.fetch()
	if err != nil || found.Snapshot.Commit != "b" || p.sync.Status.Promotion != nil {
		t.Errorf("got %+v, %v, %+v", found, err, p.sync.Status.Promotion)
	}
}

// TestSerialsInTheStatus: a heartbeat does not write the status, and a new verdict does.
func TestSerialsInTheStatus(t *testing.T) {
	m := promotion.Member{Cluster: "dev", NodeSync: "dev"}
	at := time.Unix(10_000, 0)
	record := func(since time.Time) promotion.Records {
		return promotion.Records{m: {Record: &promotion.Record{Verdicts: []promotion.Verdict{{Since: since}}}}}
	}
	before := []v1alpha1.PromotionSerial{{Cluster: "dev", NodeSync: "dev", Serial: at.Unix()}}
	for name, c := range map[string]struct {
		serial int64
		since  time.Time
		want   int64
	}{
		"a heartbeat":        {at.Unix() + 900, at.Add(-time.Hour), at.Unix()},
		"a new verdict":      {at.Unix() + 900, at.Add(time.Minute), at.Unix() + 900},
		"an hour of silence": {at.Unix() + 3600, at.Add(-time.Hour), at.Unix() + 3600},
	} {
		t.Run(name, func(t *testing.T) {
			got := storedSerials(before, promotion.Serials{m: c.serial}, record(c.since))
			if len(got) != 1 || got[0].Serial != c.want {
				t.Errorf("got %+v, want %d", got, c.want)
			}
		})
	}
}

// TestPublisher: a record is pushed once a minute at most, retried after a failure, and repeated before it counts as
// silence. Nothing is pushed before the record in Git is known.
func TestPublisher(t *testing.T) {
	p := newPromotes(t)
	step := &Step{Sync: p.sync, Memory: p.memory, Now: p.now, Tools: Tools{
		Source: p.repo, HideCredential: func(string) {},
		Secret: func(context.Context, string) (*corev1.Secret, error) {
			_, text := clusterKey(t, 2)
			return &corev1.Secret{Data: map[string][]byte{"identity": text}}, nil
		},
	}}
	done := make(chan struct{}, 10)
	publisher, start := &Publisher{}, p.now
	push := func(after time.Duration) time.Time {
		var found finding.Findings
		publisher.Push(t.Context(), Push{
			Sign: step.SignRecord(), Send: step.SendRecord(), SilentAfter: time.Hour, Now: start.Add(after),
			StillLeader: func(context.Context) error { return nil }, Hide: func(s string) string { return s }, Done: func() { done <- struct{}{} },
		}, &found)
		for { // the push is over once a second one is not in progress
			publisher.mu.Lock()
			busy := publisher.pushing
			publisher.mu.Unlock()
			if !busy {
				return found.WakeAt
			}
			<-time.After(time.Millisecond)
		}
	}
	m := MemberOf(p.sync)
	seen := promotion.Observed{Commit: "a", RolledOut: true}
	publisher.Begin(m, nil, false)
	publisher.Note(seen, start)
	if push(0); len(p.repo.pushes) != 0 {
		t.Fatal("a record was pushed although the one in Git is unknown")
	}
	publisher.Begin(m, nil, true)
	publisher.Note(seen, start)
	p.repo.refuses = 1
	if push(0); len(p.repo.pushes) != 0 || publisher.State().Failure == "" {
		t.Fatalf("the host refuses: %+v", publisher.State())
	}
	if wake := push(time.Second); !wake.Equal(start.Add(time.Minute)) {
		t.Errorf("the next attempt is due at %s", wake)
	}
	if push(time.Minute); len(p.repo.pushes) != 1 || publisher.State() != (Published{Ref: "refs/plumbline/eu/eu"}) {
		t.Fatalf("%d pushes: %+v", len(p.repo.pushes), publisher.State())
	}
	publisher.Note(promotion.Observed{Commit: "b", Failed: "braked"}, start.Add(70*time.Second))
	if wake := push(80 * time.Second); len(p.repo.pushes) != 1 || !wake.Equal(start.Add(2*time.Minute)) {
		t.Errorf("a second push within a minute; due at %s", wake)
	}
	if push(2 * time.Minute); len(p.repo.pushes) != 2 || !strings.Contains(p.repo.pushes[1], "braked") {
		t.Errorf("the change was not pushed: %v", p.repo.pushes)
	}
	if wake := push(3 * time.Minute); len(p.repo.pushes) != 2 || !wake.Equal(start.Add(17*time.Minute)) {
		t.Errorf("an unchanged record is due at %s", wake)
	}
	if push(17 * time.Minute); len(p.repo.pushes) != 3 {
		t.Error("an unchanged record was not repeated")
	}
	_, data, _ := strings.Cut(p.repo.pushes[2], " ")
	keys, err := ClusterKeys(p.sync.Spec.Promotion)
	if err != nil {
		t.Fatal(err)
	}
	got, err := promotion.Envelope{Data: []byte(data)}.Open(m, keys[m], start.Add(17*time.Minute))
	if err != nil || got.Of("a").State != promotion.Succeeded || got.Of("b").State != promotion.Failed {
		t.Errorf("others read %+v, %v", got, err)
	}
	next := &Publisher{} // a new process
	next.Begin(m, &got, true)
	next.Note(seen, start.Add(time.Hour))
	if r := next.Record(); !r.Of("a").Since.Equal(start) || r.Serial < got.Serial {
		t.Errorf("the soak started again: %+v", r)
	}
	p.sync.Spec.Promotion.Clusters[1].Keys = p.sync.Spec.Promotion.Clusters[0].Keys
	if _, err := step.SignRecord()(t.Context()); err == nil || !strings.Contains(err.Error(), "is not one of spec.promotion.clusters[].keys") {
		t.Errorf("a key that the others do not accept: %v", err)
	}
}
