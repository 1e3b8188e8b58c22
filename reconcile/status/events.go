package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// sendEvents sends the reconcile's events, and one for a verdict that nothing else has reported.
func (s *Step) sendEvents() {
	for _, n := range s.Notes {
		if n.Reason == v1alpha1.ReasonApplied {
			s.Memory.applied = s.revision()
		}
		s.Events.AnnotatedEventf(s.Sync, s.eventAnnotations(), n.Type, n.Reason, "%s", finding.Bounded(s.Memory.Hide(n.Message), maxEventMessage))
	}
	after, before := conditions.Get(s.Sync, meta.ReadyCondition), conditions.Get(s.Before, meta.ReadyCondition)
	if after == nil || s.superseded() || s.Finished || sameText(before, after) {
		return
	}
	kind := corev1.EventTypeNormal
	switch {
	case after.Status == metav1.ConditionUnknown:
		return // in progress: the status has the details, and each write has its event
	case after.Status == metav1.ConditionFalse:
		kind, s.Memory.applied = corev1.EventTypeWarning, ""
	case s.Memory.applied != "" && s.Memory.applied == s.revision():
		return // as expected for what was applied
	case before != nil && before.Status == metav1.ConditionTrue:
		return // a commit that changed nothing of it
	}
	s.Events.AnnotatedEventf(s.Sync, s.eventAnnotations(), kind, after.Reason, "%s", finding.Bounded(after.Message, maxEventMessage))
}

// sameText reports whether two conditions, of which the first may be nil, have the same content.
func sameText(a, b *metav1.Condition) bool {
	return a != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// eventAnnotations returns what Flux's notification-controller shows with an event: annotations with the prefix of the
// object's API group.
func (s *Step) eventAnnotations() map[string]string {
	annotations := map[string]string{v1alpha1.RevisionAnnotation: s.Sync.Status.LastAttemptedRevision, v1alpha1.ClusterAnnotation: s.Cluster}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// hidden contains what was read from Secrets, which no message repeats. The zero value hides nothing.
type hidden struct {
	values, credentials remembered
	// public reports whether an object, as kind/name, is known to everyone who sees Git: its name is kept.
	public func(object string) bool
}

// remembered are the secrets of the last two reconciles with different secrets: errors of a controller that still runs
// with the older ones may be reported.
type remembered struct {
	last     []string
	redactor redact.Redactor
}

// addValues hides values of the chart.
func (h *hidden) addValues(secrets []string) { h.values.add(secrets, redact.Values) }

// addCredentials hides credentials of the source and the registries.
func (h *hidden) addCredentials(secrets []string) { h.credentials.add(secrets, redact.Credentials) }

func (r *remembered) add(secrets []string, hide func(...string) redact.Redactor) {
	if slices.Equal(r.last, secrets) {
		return
	}
	r.redactor = hide(append(slices.Clone(r.last), secrets...)...)
	r.last = slices.Clone(secrets)
}

// named matches what may be a definition, as messages name it.
var named = regexp.MustCompile(`(?:NodePool|EC2NodeClass|NodeOverlay|CapacityBuffer/[-a-z0-9]+)/[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?`)

// hide removes all of them from a message, and escapes invisible characters. The names of definitions are public, and
// stay whatever they contain: hiding a part of one would confirm that a Secret contains it.
func (h *hidden) hide(message string) string {
	var out strings.Builder
	from := 0
	for _, at := range named.FindAllStringIndex(message, -1) {
		name := message[at[0]:at[1]]
		if h.public == nil || h.redacted(name) == name || !h.public(name) {
			continue
		}
		out.WriteString(h.redacted(message[from:at[0]]) + name)
		from = at[1]
	}
	out.WriteString(h.redacted(message[from:]))
	return redact.Visible(out.String())
}

func (h *hidden) redacted(message string) string {
	return h.values.redactor.Hide(h.credentials.redactor.Hide(message))
}

// fault returns an error of the same class without what is hidden. An error that is only about the commit stays as it
// is: hiding a value in it would confirm that a Secret contains it.
func (h *hidden) fault(err *fault.Error) *fault.Error {
	if err == nil {
		return nil
	}
	hide := h.hide
	if err.OnlyGit() {
		hide = redact.Visible
	}
	if hide(err.Error()) == err.Error() {
		return err
	}
	return err.Map(hide)
}

// error returns an error without what is hidden, with the same classification.
func (h *hidden) error(err error) error {
	if err == nil || h.hide(err.Error()) == err.Error() {
		return err
	}
	classified := fault.Classify(err)
	if hidden := h.fault(classified); hidden != classified {
		return hidden
	}
	return err
}

// HideValues hides values of the chart from now on.
func (m *Memory) HideValues(secrets []string) { m.hidden.addValues(secrets) }

// HideCredential hides a credential of the source or the registries. All of a reconcile are hidden once it is
// concluded, and until another reconcile has read different ones.
func (m *Memory) HideCredential(secret string) {
	if !slices.Contains(m.read, secret) {
		m.read = append(m.read, secret)
	}
}

// Hide removes all of them from a message, and escapes invisible characters.
func (m *Memory) Hide(message string) string { return m.hidden.hide(message) }

// Redact removes what was read from Secrets from everything that a reconcile has found, before any of it is reported,
// and escapes invisible characters. Text that is created later goes through Memory.Hide.
func (s *Step) Redact() {
	s.Memory.hidden.addCredentials(s.Memory.read)
	s.Memory.hidden.public = public(s.Set, s.Before.Status.Removals)
	s.Found = redacted(s.Found, s.Memory.hidden.found)
	s.Sync.Status = redacted(s.Sync.Status, s.Memory.hidden.status)
}

// redacted returns a copy of a value in which redact has replaced texts. Nothing that the value refers to is changed.
func redacted[T any](value T, redact func(reflect.Value)) T {
	redact(reflect.ValueOf(&value).Elem())
	return value
}

// public returns a function that reports whether an object is in Git, or was until it was removed.
func public(set *render.Set, removals []v1alpha1.Removal) func(object string) bool {
	return func(object string) bool {
		return set != nil && slices.ContainsFunc(set.Objects, func(o render.Object) bool { return o.Ref.String() == object }) ||
			slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return removalName(r) == object })
	}
}

// notRedacted is the tag of names that identify an object: a Secret may contain the same words.
const notRedacted = "-"

// found redacts every string and every error in a value, in all fields.
func (h *hidden) found(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[*fault.Error]():
		v.Set(reflect.ValueOf(h.fault(v.Interface().(*fault.Error))))
	case v.Type() == reflect.TypeFor[error]():
		if err, ok := v.Interface().(error); ok {
			v.Set(reflect.ValueOf(h.error(err)))
		}
	case v.Type() == reflect.TypeFor[string]():
		v.SetString(h.hide(v.String()))
	default:
		h.within(v, h.found, func(f reflect.StructField) bool { return f.Tag.Get("redact") != notRedacted })
	}
}

// status redacts the messages of a NodeSync's status. Identifiers are never redacted there: removals depend on them.
func (h *hidden) status(v reflect.Value) {
	if v.Type() == reflect.TypeFor[string]() {
		v.SetString(h.hide(v.String()))
		return
	}
	h.within(v, h.status, func(f reflect.StructField) bool {
		if f.Type != reflect.TypeFor[string]() {
			return f.Tag.Get("redact") != notRedacted
		}
		return f.Name == "Message" || f.Name == "Failure" || f.Tag.Get("redact") == "hide"
	})
}

// within redacts the parts of a value; of a struct, the chosen exported fields. What it refers to is copied first.
func (h *hidden) within(v reflect.Value, redact func(reflect.Value), chosen func(reflect.StructField) bool) {
	switch v.Kind() { //nolint:exhaustive // the others hold no words
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && chosen(f) {
				redact(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		for i := range v.Len() {
			redact(v.Index(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		v.Set(own)
		redact(v.Elem())
	}
}

// saveMinimalStatus writes the smallest possible status if the API server always refuses the whole one: otherwise,
// users would rely on the previous status. The records of removals are kept whole. If those are too large, no new
// removal is recorded, so that none of them starts.
func (s *Step) saveMinimalStatus(ctx context.Context, refused error) error {
	whole := *s.Sync.Status.DeepCopy()
	s.Notes, s.WakeAt = nil, s.Began.Add(s.Sync.GetRetryInterval())
	s.Fault = s.notStored(refused, "the removals are recorded without their messages")
	s.Sync.Status = s.minimalStatus(whole, whole.Removals)
	err := s.writeStatus(ctx)
	if fault.Unstorable(err) {
		unrecorded := len(whole.Removals) - len(s.Before.Status.Removals)
		s.Fault = s.notStored(refused, "removals do not begin, as they cannot be recorded ("+english.Plural(max(unrecorded, 0), "removal", "")+"): remove fewer entries in one commit")
		s.Sync.Status = s.minimalStatus(whole, s.Before.Status.Removals)
		s.Sync.Status.RecentRemovals = s.Before.Status.RecentRemovals
		// What is not recorded stays in doubt if it was.
		s.Sync.Status.LastAppliedRevision, s.Sync.Status.LastAppliedInputs = s.Before.Status.LastAppliedRevision, s.Before.Status.LastAppliedInputs
		s.Sync.Status.PartlyAppliedInputs = cmp.Or(whole.PartlyAppliedInputs, s.stored().Status.PartlyAppliedInputs)
		s.Sync.Status.Withheld, s.Sync.Status.Held = s.Before.Status.Withheld, nil
		err = s.writeStatus(ctx)
	}
	if !denied(err) {
		s.report(ctx)
	}
	return s.retryConflict(err)
}

// notStored returns an error that a status was refused, and what is in the cluster instead.
func (s *Step) notStored(refused error, instead string) *fault.Error {
	return fault.StatusNotWritten(fmt.Errorf(
		"the API server refuses the status, and less of it was written; %s: %s", instead, finding.Bounded(s.Memory.Hide(refused.Error()), maxRemovalMessage)))
}

// minimalStatus returns the smallest correct status: the records that reconciles depend on, and that the rest could not
// be written.
func (s *Step) minimalStatus(whole v1alpha1.NodeSyncStatus, removals []v1alpha1.Removal) v1alpha1.NodeSyncStatus {
	least := v1alpha1.NodeSyncStatus{
		ReconcileRequestStatus: whole.ReconcileRequestStatus,
		ObservedGeneration:     whole.ObservedGeneration,
		LastAttemptedRevision:  whole.LastAttemptedRevision,
		LastAppliedRevision:    whole.LastAppliedRevision,
		PartlyAppliedRevision:  whole.PartlyAppliedRevision,
		LastAppliedInputs:      whole.LastAppliedInputs,
		PartlyAppliedInputs:    whole.PartlyAppliedInputs,
		Artifacts:              whole.Artifacts,
		Withheld:               whole.Withheld,
		UsedReleases:           whole.UsedReleases,
		Held:                   whole.Held,
		Approved:               whole.Approved,
		UsedApprovals:          whole.UsedApprovals,
		UsedGitApprovals:       whole.UsedGitApprovals,
		LastVerified:           whole.LastVerified,
		Promotion:              whole.Promotion,
		Karpenter:              whole.Karpenter,
		Rollout:                whole.Rollout,
		PoolRollouts:           whole.PoolRollouts,
		RevertedPools:          whole.RevertedPools,
		LaunchFailing:          whole.LaunchFailing,
		IdentityConflict:       whole.IdentityConflict,
		Removals:               slices.Clone(removals),
		RecentRemovals:         whole.RecentRemovals,
		RecentTerminations:     whole.RecentTerminations,
		OpenRemovals:           whole.OpenRemovals,
		Reported:               s.Before.Status.Reported,
		Notified:               whole.Notified,
	}
	shorten(&least)
	// Starts from the previous conditions, so that unchanged ones keep their time.
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Generation: s.Sync.Generation}}
	for _, kind := range []string{meta.ReadyCondition, meta.ReconcilingCondition, v1alpha1.CloudVerifiedCondition} {
		if c := conditions.Get(s.Before, kind); c != nil {
			c.Message = finding.Bounded(c.Message, maxRemovalMessage)
			sync.Status.Conditions = append(sync.Status.Conditions, *c)
		}
	}
	v := verdictOf(s.Fault)
	conditions.MarkFalse(sync, meta.ReadyCondition, v.Reason, "%s", v.Message)
	conditions.MarkReconciling(sync, meta.ProgressingWithRetryReason, "%s", v.Message)
	least.Conditions = sync.Status.Conditions
	return least
}

// shorten truncates the messages in records, and omits records that a reconcile can find again.
func shorten(s *v1alpha1.NodeSyncStatus) {
	for i := range s.Removals {
		s.Removals[i].Message = ""
	}
	if s.Held != nil {
		s.Held.Message = ""
	}
	if s.Rollout != nil {
		s.Rollout.Message = ""
	}
	for i := range s.LaunchFailing {
		s.LaunchFailing[i].Message = finding.Bounded(s.LaunchFailing[i].Message, minMessage)
	}
	boundRollouts(s.PoolRollouts, minMessage, minExcused)
}
