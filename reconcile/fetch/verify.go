package fetch

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

// unverified is a failed verification: of which revision, for which Attempt, and when.
type unverified struct {
	of  v1alpha1.VerifiedRevision
	by  Attempt
	at  time.Time
	err error
}

// Verify checks that the revision has the signatures that the NodeSync requires, before anything in it is read.
// Verified revisions are recorded, and not verified again.
func (s *Step) Verify(ctx context.Context, snapshot *render.Snapshot) error {
	rules := s.Sync.Spec.Source.Verification()
	if rules == nil {
		s.Sync.Status.LastVerified = nil
		return nil
	}
	wanted := s.toVerify(*rules, snapshot)
	if known := s.Sync.Status.LastVerified; known != nil && sameVerified(*known, wanted) {
		known.Revision = wanted.Revision // the branch may have been renamed
		return nil
	}
	failed := &s.Memory.unverified
	if failed.err != nil && failed.of == wanted && failed.by == s.Memory.fetchedFor &&
		!finding.Due(s.Now, failed.at, s.Sync.GetRetryInterval()) {
		s.WakeBy(failed.at.Add(s.Sync.GetRetryInterval()))
		s.Unverified = failed.err
		return failed.err
	}
	verified, err := s.verifyNow(ctx, *rules, wanted, snapshot.Commit)
	switch {
	case err != nil && (source.Lost(err) || fault.Classify(err).Class == fault.Superseded):
		return err // it is fetched and verified again
	case err != nil:
		err = fmt.Errorf("verify %s: %w", render.ShortRevision(wanted.Revision), err)
		*failed = unverified{of: wanted, by: s.Memory.fetchedFor, at: s.Now, err: err}
		s.WakeBy(s.Now.Add(s.Sync.GetRetryInterval()))
		s.Unverified = err
		return err
	}
	*failed = unverified{}
	s.Sync.Status.LastVerified = &verified
	return nil
}

// toVerify returns what must be verified, and by which rules.
func (s *Step) toVerify(rules v1alpha1.GitVerification, snapshot *render.Snapshot) v1alpha1.VerifiedRevision {
	object := snapshot.Commit
	if rules.Mode == v1alpha1.VerifyTag {
		object = snapshot.Tag
	}
	return v1alpha1.VerifiedRevision{
		Revision: snapshot.Revision, Object: object, URL: s.Sync.Spec.Source.Repository(), Mode: rules.Mode, Secret: rules.SecretRef.Name,
	}
}

// sameVerified reports whether the verified revision is the required one, by the same rules.
func sameVerified(known, wanted v1alpha1.VerifiedRevision) bool {
	return wanted.Object != "" && known.Object == wanted.Object && render.CommitOf(known.Revision) == render.CommitOf(wanted.Revision) &&
		known.URL == wanted.URL && known.Mode == wanted.Mode && known.Secret == wanted.Secret
}

func (s *Step) verifyNow(
	ctx context.Context, rules v1alpha1.GitVerification, wanted v1alpha1.VerifiedRevision, commit string,
) (v1alpha1.VerifiedRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Sync.GetTimeout())
	defer cancel()
	keys, err := s.signers(ctx, rules.SecretRef.Name)
	if err != nil {
		return wanted, err
	}
	request, err := s.request(ctx)
	if err != nil {
		return wanted, err
	}
	want := source.Signatures{Mode: rules.Mode, Commit: commit, Keys: keys, Now: s.Now}
	newest := newestVerified(s.Sync.Status.LastVerified, wanted.URL)
	if newest != nil {
		want.Since, want.Newest = render.CommitOf(s.Sync.Status.LastVerified.Revision), render.CommitOf(newest.Revision)
	}
	found, err := s.Source.Verify(ctx, request, want)
	var unknown *source.HistoryError
	if errors.As(err, &unknown) {
		err = fmt.Errorf("%w: to start over with a signed HEAD, set spec.source.git.verify.mode to HEAD until %s is True",
			err, v1alpha1.SourceVerifiedCondition)
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

// newestVerified returns the newest verified revision of a repository, according to its signing times; nil if there is
// none.
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

// signers reads the trusted public keys.
func (s *Step) signers(ctx context.Context, name string) (signature.Keys, error) {
	secret, err := s.Secret(ctx, name)
	if err != nil {
		err = fmt.Errorf("read secret %s, which spec.source.git.verify names: %w", name, err)
		return signature.Keys{}, fault.Unverifiable(err)
	}
	if err := grant.CheckNodeSync(secret, s.Sync.Name); err != nil {
		return signature.Keys{}, err
	}
	return signature.KeysFromSecret(name, secret.Data)
}
