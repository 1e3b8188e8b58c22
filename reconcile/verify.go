package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

// unverified is a verification that failed, when, and what was tried by whom.
type unverified struct {
	of  v1alpha1.VerifiedRevision
	by  fetchKey
	at  time.Time
	err error
}

// verify checks that the revision has the signatures that the NodeSync asks for,
// before anything of it is read. What has them is noted, and not verified again.
func (p *pass) verify(ctx context.Context) error {
	rules := p.sync.Spec.Source.Git.Verify
	if rules == nil {
		p.sync.Status.LastVerified = nil
		return nil
	}
	wanted := p.toVerify(*rules)
	if known := p.sync.Status.LastVerified; known != nil && sameVerified(*known, wanted) {
		known.Revision = wanted.Revision // the branch may have been renamed
		return nil
	}
	failed := &p.memory.unverified
	if failed.err != nil && failed.of == wanted && failed.by == p.memory.fetchedFor && !finding.Due(p.now, failed.at, p.retryInterval()) {
		p.WakeBy(failed.at.Add(p.retryInterval()))
		p.Unverified = failed.err
		return failed.err
	}
	verified, err := p.verifyNow(ctx, *rules, wanted)
	switch {
	case err != nil && (source.Lost(err) || fault.Classify(err).Class == fault.Superseded):
		return err // it is fetched, and tried, once more
	case err != nil:
		err = fmt.Errorf("verify %s: %w", render.ShortRevision(wanted.Revision), err)
		*failed = unverified{of: wanted, by: p.memory.fetchedFor, at: p.now, err: err}
		p.WakeBy(p.now.Add(p.retryInterval()))
		p.Unverified = err
		return err
	}
	*failed = unverified{}
	p.sync.Status.LastVerified = &verified
	return nil
}

// toVerify is what has to be verified, and by which rules.
func (p *pass) toVerify(rules v1alpha1.GitVerification) v1alpha1.VerifiedRevision {
	object := p.snapshot.Commit
	if rules.Mode == v1alpha1.VerifyTag {
		object = p.snapshot.Tag
	}
	return v1alpha1.VerifiedRevision{Revision: p.snapshot.Revision, Object: object, URL: p.sync.Spec.Source.Git.URL, Mode: rules.Mode, Secret: rules.SecretRef.Name}
}

// sameVerified says whether what was verified is what has to be, by the same rules.
func sameVerified(known, wanted v1alpha1.VerifiedRevision) bool {
	return wanted.Object != "" && known.Object == wanted.Object && render.CommitOf(known.Revision) == render.CommitOf(wanted.Revision) &&
		known.URL == wanted.URL && known.Mode == wanted.Mode && known.Secret == wanted.Secret
}

func (p *pass) verifyNow(ctx context.Context, rules v1alpha1.GitVerification, wanted v1alpha1.VerifiedRevision) (v1alpha1.VerifiedRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	keys, err := p.signers(ctx, rules.SecretRef.Name)
	if err != nil {
		return wanted, err
	}
	request, err := p.request(ctx)
	if err != nil {
		return wanted, err
	}
	want := source.Signatures{Mode: rules.Mode, Commit: p.snapshot.Commit, Keys: keys, Now: p.now}
	newest := newestVerified(p.sync.Status.LastVerified, wanted.URL)
	if newest != nil {
		want.Since, want.Newest = render.CommitOf(p.sync.Status.LastVerified.Revision), render.CommitOf(newest.Revision)
	}
	found, err := p.Source.Verify(ctx, request, want)
	var unknown *source.HistoryError
	if errors.As(err, &unknown) {
		err = fmt.Errorf("%w: to start over with a signed HEAD, set spec.source.git.verify.mode to HEAD until %s is True", err, v1alpha1.SourceVerifiedCondition)
	}
	if err != nil {
		return wanted, err
	}
	wanted.Signer = found.Signer
	if !found.Made.IsZero() {
		made := metav1.NewTime(found.Made)
		wanted.SignedAt = &made
		if newest != nil && !found.Follows && made.Before(&newest.SignedAt) {
			wanted.Newer = newest
		}
	}
	return wanted, nil
}

// newestVerified is the newest revision of a repository that was verified, in its own
// words; nil where there is none.
func newestVerified(last *v1alpha1.VerifiedRevision, url string) *v1alpha1.NewerRevision {
	switch {
	case last == nil || last.URL != url:
		return nil
	case last.Newer != nil:
		return last.Newer
	case last.SignedAt == nil:
		return &v1alpha1.NewerRevision{Revision: last.Revision}
	}
	return &v1alpha1.NewerRevision{Revision: last.Revision, SignedAt: *last.SignedAt}
}

// signers reads the public keys that are trusted.
func (p *pass) signers(ctx context.Context, name string) (signature.Keys, error) {
	secret, err := p.readSecret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which spec.source.git.verify names: %w", name, err)
		return signature.Keys{}, &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonVerificationError, Err: err}
	}
	if err := grant.CheckKeys(secret, p.sync.Name); err != nil {
		return signature.Keys{}, err
	}
	return signature.KeysFromSecret(name, secret.Data)
}
