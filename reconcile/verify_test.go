package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

const aliceKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGvCdWz2zvLMD5xD1H8Pbmb0rYlTQZx3gDqRc4WuzCuU alice\n"

func signers(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "signers"}, Data: map[string][]byte{"alice.sshpub": []byte(aliceKey)}}
	change(s)
	return s
}

// verifying makes a NodeSync require signatures.
func verifying(mode v1alpha1.VerificationMode) func(*v1alpha1.NodeSync) {
	return func(n *v1alpha1.NodeSync) {
		n.Spec.Source.Git.Verify = &v1alpha1.GitVerification{Mode: mode, SecretRef: v1alpha1.LocalReference{Name: "signers"}}
	}
}

// at returns a reconcile of a commit that was fetched.
func (b *bed) at(commit string) *pass {
	b.t.Helper()
	p := b.pass()
	p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
	return p
}

func TestWhatIsVerifiedOnce(t *testing.T) {
	b := newBed(t, nodeSync(verifying(v1alpha1.VerifyRange)), signers(func(*corev1.Secret) {}))
	made := b.clock.now().Add(-time.Hour)
	b.source.verified = source.Verified{Signer: "alice.sshpub (SSH x)", Made: made, Follows: true}
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	p := b.at(one)
	verify := func(commit string) {
		t.Helper()
		p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
		if err := p.verify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	verify(one)
	verify(one)
	if len(b.source.wanted) != 1 || b.source.wanted[0].Since != "" || b.source.wanted[0].Mode != v1alpha1.VerifyRange || b.source.wanted[0].Commit != one {
		t.Fatalf("asked for %+v", b.source.wanted)
	}
	verify(two)
	if last := b.source.wanted[1]; last.Since != one || last.Newest != one {
		t.Errorf("since %s, newest %s", last.Since, last.Newest)
	}
	p.summarize(t.Context())
	if c := conditions.Get(p.sync, v1alpha1.SourceVerifiedCondition); c == nil || c.Status != metav1.ConditionTrue || c.Reason != meta.SucceededReason || !strings.Contains(c.Message, two) || !strings.Contains(c.Message, "alice.sshpub") {
		t.Errorf("SourceVerified = %+v", c)
	}
	// Other rules, or another repository, need another verification.
	for name, change := range map[string]func(*v1alpha1.GitSource){
		"mode":   func(g *v1alpha1.GitSource) { g.Verify.Mode = v1alpha1.VerifyHEAD },
		"secret": func(g *v1alpha1.GitSource) { g.Verify.SecretRef.Name = "token" },
		"url":    func(g *v1alpha1.GitSource) { g.URL = "https://git.example.com/acme/other.git" },
	} {
		before := *p.sync.Spec.Source.Git.DeepCopy()
		change(p.sync.Spec.Source.Git)
		asked := len(b.source.wanted)
		_ = p.verify(t.Context()) // the Secret "token" has no key
		if name != "secret" && len(b.source.wanted) != asked+1 {
			t.Errorf("another %s: not verified again", name)
		}
		if name == "url" && b.source.wanted[asked].Since != "" {
			t.Error("what was verified in one repository counts for another")
		}
		if name == "secret" && p.Unverified == nil {
			t.Error("another secret: not verified again")
		}
		p.sync.Spec.Source.Git, p.Unverified = &before, nil
	}
	p.sync.Spec.Source.Git.Verify = nil
	verify(two)
	p.summarize(t.Context())
	if p.sync.Status.LastVerified != nil || conditions.Has(p.sync, v1alpha1.SourceVerifiedCondition) {
		t.Error("something is left of a verification that is not wanted any more")
	}
}

// An unsigned commit is refused before anything of it is read, and is retried after a while: the Secret may have
// changed.
func TestWhatIsNotVerified(t *testing.T) {
	b := newBed(t, nodeSync(verifying(v1alpha1.VerifyHEAD)), signers(func(*corev1.Secret) {}))
	b.source.unsigned = &signature.Error{Object: "commit 000000000001", Problem: "is not signed", Remedy: "sign it"}
	b.reconcile()
	b.reconcile()
	if len(b.source.wanted) != 1 {
		t.Errorf("verified %d times", len(b.source.wanted))
	}
	sync := b.read()
	for _, kind := range []string{v1alpha1.SourceVerifiedCondition, meta.ReadyCondition} {
		if c := conditions.Get(sync, kind); c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonVerificationError || !strings.Contains(c.Message, "commit 000000000001 is not signed") {
			t.Errorf("%s = %+v", kind, c)
		}
	}
	if sync.Status.LastVerified != nil || sync.Status.LastAppliedRevision != "" || !strings.HasSuffix(sync.Status.LastAttemptedRevision, strings.Repeat("0", 39)+"1") {
		t.Errorf("status %+v", sync.Status)
	}
	b.source.unsigned, b.source.verified = nil, source.Verified{Signer: "alice.sshpub (SSH x)"}
	b.clock.forward(2 * time.Minute)
	b.reconcile()
	if c := conditions.Get(b.read(), v1alpha1.SourceVerifiedCondition); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("SourceVerified = %+v", c)
	}
}

func TestSecretsOfSigners(t *testing.T) {
	cases := map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"missing":              {want: "secret signers, which spec.source.git.verify names"},
		"without a key":        {secret: signers(func(s *corev1.Secret) { s.Data = nil }), want: "secret signers has no key of a signer: it has no entry"},
		"for another NodeSync": {secret: signers(func(s *corev1.Secret) { s.Annotations = map[string]string{v1alpha1.NodeSyncsAnnotation: "staging"} }), want: "does not list NodeSync prod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(verifying(v1alpha1.VerifyHEAD)))
			if c.secret != nil {
				if err := b.client.Create(t.Context(), c.secret); err != nil {
					t.Fatal(err)
				}
			}
			b.reconcile()
			if ready := conditions.Get(b.read(), meta.ReadyCondition); ready == nil || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, c.want) || !conditions.IsStalled(b.read()) {
				t.Errorf("Ready = %+v, want %q", ready, c.want)
			}
			if len(b.source.wanted) != 0 {
				t.Error("verified without keys")
			}
		})
	}
}

// A signature covers the time of the commit: one that is older than what was verified is an older state, even if its
// place in the history is unknown, and while it is HEAD.
func TestAnOlderSignedCommit(t *testing.T) {
	b := newBed(t, nodeSync(verifying(v1alpha1.VerifyHEAD)), signers(func(*corev1.Secret) {}))
	newest, older, other, next := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40), strings.Repeat("4", 40)
	p := b.at(newest)
	p.sync.Status.LastAppliedRevision, p.before.Status.LastAppliedRevision = "main@sha1:"+newest, "main@sha1:"+newest
	for _, step := range []struct {
		commit  string
		made    time.Duration
		follows bool
		setBack bool
	}{
		{newest, 0, true, false},
		{older, -time.Hour, false, true},
		{other, -30 * time.Minute, false, true}, // newer than the one before, and older than the newest
		{newest, 0, true, false},
		{next, -time.Minute, true, false}, // a slow clock, and known to be the newest
		{other, -30 * time.Minute, false, true},
		{next, time.Minute, false, false},
	} {
		b.source.verified = source.Verified{Signer: "alice", Made: b.clock.now().Add(step.made), Follows: step.follows}
		p.snapshot = &render.Snapshot{Revision: "main@sha1:" + step.commit, Commit: step.commit}
		if err := p.verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		doubt := p.policyStep().Doubt()
		if got := doubt != nil && doubt.Reason == v1alpha1.ReasonOlderRevision; got != step.setBack {
			t.Errorf("%s: set back: %t, last verified %+v", step.commit[:4], got, p.sync.Status.LastVerified)
		}
	}
}

// What could not be verified is retried at once, and does not fail the commit.
func TestVerificationThatWasOvertaken(t *testing.T) {
	b := newBed(t, nodeSync(verifying(v1alpha1.VerifyRange)), signers(func(*corev1.Secret) {}))
	b.source.unsigned = &source.StaleError{Revision: "main@sha1:1"}
	p := b.at(commit)
	if err := p.verify(t.Context()); err == nil || p.Unverified != nil {
		t.Errorf("verify() = %v, unverified: %v", err, p.Unverified)
	}
	b.source.unsigned = &source.UnreachableError{URL: "https://git.example.com", Err: errors.New("no route")}
	if err := p.verify(t.Context()); err == nil || !p.conclusion().KeepsCommitStatus() {
		t.Errorf("verify() = %v, and the commit is told so", err)
	}
	b.source.unsigned = &source.HistoryError{Since: "1", Reason: "HEAD has another history"}
	b.clock.forward(p.sync.GetRetryInterval())
	p.now = b.clock.now()
	if err := p.verify(t.Context()); err == nil || !strings.Contains(err.Error(), "set spec.source.git.verify.mode to HEAD until SourceVerified is True") {
		t.Errorf("verify() = %v", err)
	}
}

// TestPlainHTTPIsWarnedOf shows that a repository over plain HTTP without verify is reported in a condition and an
// event, not in Ready.
func TestPlainHTTPIsWarnedOf(t *testing.T) {
	b := newBed(t, nodeSync(func(*v1alpha1.NodeSync) {}))
	p := b.at(strings.Repeat("1", 40))
	p.sync.Spec.Source.Git.URL = "http://git.example.com/fleet.git"
	p.sync.Spec.Source.Git.Verify = nil
	p.summarize(t.Context())
	c := conditions.Get(p.sync, v1alpha1.SourceVerifiedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonUnprotected || !strings.Contains(c.Message, "http://git.example.com/fleet.git is fetched over plain HTTP") {
		t.Errorf("SourceVerified = %+v", c)
	}
}
