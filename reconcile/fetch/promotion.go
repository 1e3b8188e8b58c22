package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

// promoted is what one fetch passes to the next about rings. Losing it costs time only.
type promoted struct {
	// history is that of the branch, with tip as its newest commit, read for one generation until taken was reached.
	history    *promotion.History
	tip, taken string
	generation int64
	// rings are those that were parsed, by the identity of their content.
	rings map[string]parsedRings
	// serials are the newest that were seen. The status has them as well, but may lag behind.
	serials promotion.Serials
	// selected is the commit that may be taken, by why, and who has signed an emergency.
	selected promotion.Answer
	// again is when the answer may change without a fetch; zero if it does not.
	again time.Time
	// rendered are the inputs of the commits that were rendered last, the newest last.
	rendered []renderedCommit
	// unread is why records of other clusters could not be read.
	unread error
}

// renderedCommit is what was read to render a commit.
type renderedCommit struct {
	commit string
	inputs render.Inputs
	id     string
}

const (
	// maxRendered limits the commits whose inputs are remembered, and maxCompared how many newer commits are compared with
	// them: one that returns to such inputs is a revert, whatever it changes elsewhere in the repository.
	maxRendered, maxCompared = 10, 50
)

// Rendered remembers what was read to render a commit.
func (m *Memory) Rendered(commit string, inputs render.Inputs) {
	p := &m.promoted
	last := len(p.rendered) - 1
	if last >= 0 && p.rendered[last].commit == commit {
		return
	}
	p.rendered = append(p.rendered, renderedCommit{commit, inputs, inputs.Fingerprint()})
	if more := len(p.rendered) - maxRendered; more > 0 {
		p.rendered = slices.Delete(p.rendered, 0, more)
	}
}

// inputsOf identifies what this cluster reads of a commit: by what it has read of another one, if the commit has the same
// there, else by all files of the commit.
func (s *Step) inputsOf(ctx context.Context, key string, c source.BranchCommit, compare bool) string {
	rendered := s.Memory.promoted.rendered
	for _, r := range rendered {
		if r.commit == c.Hash {
			return r.id
		}
	}
	if !compare || len(rendered) == 0 {
		return c.Content
	}
	snapshot, err := s.Source.At(key, c.Hash)
	if err != nil {
		return c.Content
	}
	within := snapshot.Within(ctx, s.Sync.Spec.Path, render.Reading)
	for _, r := range slices.Backward(rendered) {
		if same, err := r.inputs.Unchanged(within); err == nil && same {
			return r.id
		}
	}
	return c.Content
}

type parsedRings struct {
	rings *promotion.Rings
	err   error
}

// MemberOf returns the name of a NodeSync in rings.yaml.
func MemberOf(sync *v1alpha1.NodeSync) promotion.Member {
	return promotion.Member{Cluster: sync.Spec.Promotion.Cluster, NodeSync: sync.Name}
}

// recordReferences returns the Git references with the records of the clusters whose keys the NodeSync has.
func recordReferences(spec *v1alpha1.Promotion) []string {
	if spec == nil {
		return nil
	}
	var refs []string
	for _, c := range spec.Clusters {
		refs = append(refs, promotion.Member{Cluster: c.Name, NodeSync: c.GetNodeSync()}.References()...)
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// promote returns the Snapshot of the newest commit that the rings let this cluster take. If it fails, the Snapshot of
// the commit that was taken last is returned with the error, so that drift is corrected and removals continue.
func (s *Step) promote(ctx context.Context, req source.Request) (*render.Snapshot, error) {
	m := &s.Memory.promoted
	status := s.promotionStatus()
	answer, err := s.gate(ctx, req, status)
	if err != nil && fault.Classify(err).Class != fault.Terminal {
		return nil, err // the host, or the store: the next attempt decides
	}
	if m.selected = answer; answer.Commit == "" {
		return nil, cmp.Or(err, nothingPassed(answer))
	}
	snapshot, failed := s.Source.Pick(ctx, req, answer.Commit)
	if failed != nil {
		return nil, cmp.Or(err, failed)
	}
	return snapshot, err
}

// nothingPassed reports that a new cluster may not take any commit yet.
func nothingPassed(answer promotion.Answer) error {
	if len(answer.Waits) == 0 {
		return fault.Waits(errors.New("no commit of the branch is known that the rings let this cluster take"))
	}
	first := answer.Waits[0]
	return fault.Waits(fmt.Errorf("no commit has passed the rings yet: %.8s %s", first.Commit, first.Message))
}

// gate asks the rings which commit may be taken. An error that a person has to resolve is Terminal; the commit that was
// taken last stays.
func (s *Step) gate(ctx context.Context, req source.Request, status *v1alpha1.PromotionStatus) (promotion.Answer, error) {
	spec, m := s.Sync.Spec.Promotion, &s.Memory.promoted
	stays := promotion.Answer{Commit: status.Taken}
	keys, err := ClusterKeys(spec)
	if err != nil {
		return stays, fault.Unpromoted(err)
	}
	history, err := s.readBranch(ctx, req, status.Taken)
	var unknown *source.HistoryError
	if errors.As(err, &unknown) {
		return stays, fault.Unpromoted(fmt.Errorf("read the branch back to the commit that was taken last: %w: push that commit to any branch, "+
			"or delete spec.promotion and set it again to begin with HEAD", err))
	}
	if err != nil {
		return stays, err
	}
	records := s.readRecords(req.Key, keys, status)
	me := MemberOf(s.Sync)
	if s.Own != nil {
		records[me] = promotion.Standing{Record: s.Own}
	}
	floor := promotion.Floor{Ring: spec.Ring, MinSoak: spec.GetMinSoak()}
	answer, err := promotion.NewView(history, records, s.Now).Gate(me, floor, status.Taken)
	m.again = time.Time{}
	for _, w := range answer.Waits {
		if !w.Until.IsZero() && w.Until.After(s.Now) && (m.again.IsZero() || w.Until.Before(m.again)) {
			m.again = w.Until
		}
	}
	status.Waits = waitsOf(answer.Waits)
	if err != nil {
		return stays, fault.Unpromoted(err)
	}
	return answer, nil
}

// promotionStatus returns the status of the rings. A NodeSync that had none continues with the commit that was applied.
func (s *Step) promotionStatus() *v1alpha1.PromotionStatus {
	status := &s.Sync.Status
	if status.Promotion == nil {
		status.Promotion = &v1alpha1.PromotionStatus{Taken: render.CommitOf(cmp.Or(status.PartlyAppliedRevision, status.LastAppliedRevision))}
	}
	return status.Promotion
}

// Take records that a Snapshot was taken, once its signatures are verified: the next commit passes by its rings.yaml.
func (s *Step) Take(snapshot *render.Snapshot) {
	if s.Sync.Spec.Promotion == nil || snapshot == nil {
		return
	}
	status, selected := s.promotionStatus(), s.Memory.promoted.selected
	if status.Taken == snapshot.Commit {
		return
	}
	now := metav1.NewTime(s.Now.Truncate(time.Second))
	status.Taken, status.TakenAt, status.By, status.EmergencySigner = snapshot.Commit, &now, "", ""
	if selected.Commit == snapshot.Commit {
		status.By, status.EmergencySigner = string(selected.By), selected.Emergency
	}
	if status.EmergencySigner != "" {
		s.Warn(v1alpha1.ReasonEmergencyTaken, fmt.Sprintf("%s was taken without a soak and regardless of windows: %s has signed it as an emergency",
			render.ShortRevision(snapshot.Revision), status.EmergencySigner))
	}
}

// SilentAfter returns after which time without a record this cluster may count as silent: other clusters judge by the
// rings.yaml of the commits that they have taken.
func (s *Step) SilentAfter() time.Duration {
	if history := s.Memory.promoted.history; history != nil {
		return history.SilentAfter()
	}
	return promotion.DefaultSilentAfter
}

// OwnRecord returns the record of this cluster that Git has; nil if it has none. read is false if that is unknown.
func (s *Step) OwnRecord() (own *promotion.Record, read bool) {
	m := s.Memory.own
	return m.record, m.read
}

// ownRecord is the record of this cluster as the last fetch has read it.
type ownRecord struct {
	record *promotion.Record
	read   bool
}

// Unread returns why records of other clusters could not be read; nil if they could.
func (s *Step) Unread() error { return s.Memory.promoted.unread }

// maxWaits limits the commits in the status, and maxWait what each waits for, in bytes.
const maxWaits, maxWait = 10, 512

func waitsOf(waits []promotion.Wait) []v1alpha1.PromotionWait {
	at := func(t time.Time) *metav1.Time {
		if t.IsZero() {
			return nil
		}
		return new(metav1.NewTime(t.Truncate(time.Second)))
	}
	var all []v1alpha1.PromotionWait
	for _, w := range waits[:min(len(waits), maxWaits)] {
		all = append(all, v1alpha1.PromotionWait{
			Commit: w.Commit, Reason: string(w.Reason), Message: finding.Bounded(w.Message, maxWait), Ring: w.Ring, Since: at(w.Since), Until: at(w.Until),
		})
	}
	return all
}

// ClusterKeys parses the public keys of the clusters.
func ClusterKeys(spec *v1alpha1.Promotion) (map[promotion.Member]signature.Keys, error) {
	all := make(map[promotion.Member]signature.Keys, len(spec.Clusters))
	for i, c := range spec.Clusters {
		m := promotion.Member{Cluster: c.Name, NodeSync: c.GetNodeSync()}
		if _, twice := all[m]; twice {
			return nil, fmt.Errorf("spec.promotion.clusters[%d]: %s is listed twice", i, m)
		}
		keys, err := signature.KeysFromSecret("of "+m.String(), map[string][]byte{m.Cluster + ".sshpub": []byte(strings.Join(c.Keys, "\n"))})
		if err != nil {
			return nil, fmt.Errorf("spec.promotion.clusters[%d].keys of %s: not a public SSH key in the format of authorized_keys", i, m)
		}
		all[m] = keys
	}
	return all, nil
}

// readBranch returns the history of the branch, back to the commit that was taken last.
func (s *Step) readBranch(ctx context.Context, req source.Request, taken string) (*promotion.History, error) {
	m := &s.Memory.promoted
	if m.history != nil && m.tip == s.tip && m.taken == taken && m.generation == s.Sync.Generation {
		return m.history, nil
	}
	found, err := s.Source.Branch(ctx, req, source.BranchQuery{Reach: taken, File: promotion.File, Trailer: promotion.Trailer})
	if err != nil {
		return nil, err
	}
	commits, parsed := make([]promotion.Commit, 0, len(found.Commits)), map[string]parsedRings{}
	newer := true
	signers := sync.OnceValues(func() (*signature.Keys, error) { return s.emergencySigners(ctx) })
	for i, c := range found.Commits {
		newer = newer && c.Hash != taken
		one := promotion.Commit{
			Hash: c.Hash, Parents: c.Parents, At: c.At, Inputs: s.inputsOf(ctx, req.Key, c, newer && i < maxCompared),
		}
		rings := m.parse(c)
		parsed[c.FileID] = rings
		one.Rings, one.Invalid = rings.rings, rings.err
		if c.Trailer != "" {
			if one.Emergency, err = s.emergency(req.Key, c.Hash, signers); err != nil {
				return nil, err
			}
		}
		commits = append(commits, one)
	}
	m.history, m.tip, m.taken, m.generation, m.rings = promotion.NewHistory(found.Tip, commits), found.Tip, taken, s.Sync.Generation, parsed
	return m.history, nil
}

// parse returns the rings of a commit; those that were parsed before are not parsed again.
func (m *promoted) parse(c source.BranchCommit) parsedRings {
	switch known, is := m.rings[c.FileID]; {
	case c.Problem != "":
		return parsedRings{err: errors.New(c.Problem)}
	case c.FileID == "":
		return parsedRings{}
	case is:
		return known
	}
	rings, err := promotion.Parse(promotion.File, c.File)
	return parsedRings{rings, err}
}

// emergencySigners returns the keys of the emergency signers; nil if there are none.
func (s *Step) emergencySigners(ctx context.Context) (*signature.Keys, error) {
	ref := s.Sync.Spec.Promotion.EmergencySigners
	if ref == nil {
		return nil, nil
	}
	secret, err := s.Secret(ctx, ref.Name)
	if err != nil {
		return nil, fault.Unpromoted(fmt.Errorf("read secret %s, which spec.promotion.emergencySigners names: %w", ref.Name, err))
	}
	if err := grant.CheckNodeSync(secret, s.Sync.Name); err != nil {
		return nil, err
	}
	keys, err := signature.KeysFromSecret(ref.Name, secret.Data)
	if err != nil {
		return nil, fault.Unpromoted(err)
	}
	return &keys, nil
}

// emergency returns which of the emergency signers has signed a commit; empty if none has.
func (s *Step) emergency(key, commit string, signers func() (*signature.Keys, error)) (string, error) {
	keys, err := signers()
	if err != nil || keys == nil {
		return "", err
	}
	signer, err := s.Source.SignerOf(key, commit, *keys, s.Now)
	if unsigned := (*signature.Error)(nil); errors.As(err, &unsigned) {
		return "", nil // it goes through the rings like any other commit
	}
	return signer, err
}

// envelopesOf returns the records of the clusters with keys, as a fetch has found them.
func envelopesOf(found source.Records, keys map[promotion.Member]signature.Keys) map[promotion.Member][]promotion.Envelope {
	envelopes := map[promotion.Member][]promotion.Envelope{}
	for member := range keys {
		for _, ref := range member.References() {
			if r, there := found.Of[ref]; there {
				envelopes[member] = append(envelopes[member], promotion.Envelope{Hash: r.Hash, Data: r.Data, Problem: r.Problem})
			}
		}
	}
	return envelopes
}

// serialsOf returns the serials in the status.
func serialsOf(status *v1alpha1.PromotionStatus) promotion.Serials {
	seen := promotion.Serials{}
	for _, one := range status.Serials {
		seen[promotion.Member{Cluster: one.Cluster, NodeSync: one.NodeSync}] = one.Serial
	}
	return seen
}

// FleetSource is what the fetches of NodeSyncs have found.
type FleetSource interface {
	Records(key string) source.Records
	At(key, commit string) (*render.Snapshot, error)
}

// Fleet returns the rings that decide about the next commit of a NodeSync, and the records of its clusters, as its last
// fetch has found them. It asks no host, and returns no rings if the NodeSync has taken no commit yet.
func Fleet(from FleetSource, sync *v1alpha1.NodeSync, now time.Time) (*promotion.Rings, promotion.Records, error) {
	spec, status := sync.Spec.Promotion, sync.Status.Promotion
	if spec == nil || status == nil || status.Taken == "" {
		return nil, nil, nil
	}
	key := client.ObjectKeyFromObject(sync).String()
	snapshot, err := from.At(key, status.Taken)
	if err != nil {
		return nil, nil, err
	}
	text, err := fs.ReadFile(snapshot.FS, promotion.File)
	if err != nil {
		return nil, nil, err
	}
	rings, err := promotion.Parse(promotion.File, text)
	if err != nil {
		return nil, nil, err
	}
	keys, err := ClusterKeys(spec)
	if err != nil {
		return nil, nil, err
	}
	records, _ := promotion.Read(envelopesOf(from.Records(key), keys), keys, serialsOf(status), now)
	return rings, records, nil
}

// readRecords opens the records that were fetched, and records their serials.
func (s *Step) readRecords(key string, keys map[promotion.Member]signature.Keys, status *v1alpha1.PromotionStatus) promotion.Records {
	m := &s.Memory.promoted
	found := s.Source.Records(key)
	m.unread = found.Failure
	seen := serialsOf(status)
	for member, serial := range m.serials {
		seen[member] = max(seen[member], serial)
	}
	records, kept := promotion.Read(envelopesOf(found, keys), keys, seen, s.Now)
	m.serials = kept
	status.Serials = storedSerials(status.Serials, kept, records)
	me := MemberOf(s.Sync)
	s.Memory.own = ownRecord{record: records[me].Record, read: found.Failure == nil}
	return records
}

// serialLag is by how many seconds the serials in the status may lag behind while the verdicts of a record are the same:
// otherwise each heartbeat of each cluster would write the status. An older record with the same verdicts is only older.
const serialLag = int64(time.Hour / time.Second)

// storedSerials returns the serials for the status, sorted.
func storedSerials(before []v1alpha1.PromotionSerial, kept promotion.Serials, records promotion.Records) []v1alpha1.PromotionSerial {
	was := serialsOf(&v1alpha1.PromotionStatus{Serials: before})
	all := make([]v1alpha1.PromotionSerial, 0, len(kept))
	for member, serial := range kept {
		old, known := was[member]
		if known && serial-old < serialLag && !changedSince(records[member].Record, old) {
			serial = old
		}
		all = append(all, v1alpha1.PromotionSerial{Cluster: member.Cluster, NodeSync: member.NodeSync, Serial: serial})
	}
	slices.SortFunc(all, func(a, b v1alpha1.PromotionSerial) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.NodeSync, b.NodeSync))
	})
	return all
}

// changedSince reports whether a record has a verdict that is newer than a serial, which is a time in seconds.
func changedSince(r *promotion.Record, serial int64) bool {
	return r != nil && slices.ContainsFunc(r.Verdicts, func(v promotion.Verdict) bool { return v.Since.Unix() >= serial })
}
