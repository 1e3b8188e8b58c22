package deletion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/manifests/core"
	"github.com/plumbline-dev/plumbline/manifests/guard"
	rbaccharts "github.com/plumbline-dev/plumbline/manifests/rbac-charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// readInterval is the minimum interval between two reads: policies are not watched, because RBAC cannot allow a watch
// by name.
const readInterval = 20 * time.Second

// Answer is the state of the deletion guard. The zero value means that it was not read.
type Answer struct {
	// Looked reports whether a read was tried, and Known whether all of it was read that RBAC allows.
	Looked, Known bool
	// Missing and Altered describe the policies of the deletion guard that are missing or altered.
	Missing, Altered []string
	// ChartsMissing and ChartsAltered describe those that limit what plumbline itself may write.
	ChartsMissing, ChartsAltered []string
	// Denied and ChartsDenied describe those of each that RBAC does not allow to read, because the role is of an older version.
	Denied, ChartsDenied []string
	// Unread is why none of them can be read.
	Unread string
}

// Words returns one line that says what is wrong and what to do; empty if nothing is wrong.
func (a Answer) Words() string {
	if a.Unread != "" {
		return "whether the API server denies the accidental deletion of nodes is unknown: " + a.Unread
	}
	return beside(first(slices.Concat(a.Missing, a.Altered), "manifests/guard"), a.Denied)
}

// Details returns Words with each policy, what its absence allows, and how to correct it, for an event.
func (a Answer) Details() string {
	found := slices.Concat(a.Missing, a.Altered)
	if a.Unread != "" || len(found) == 0 {
		return a.Words()
	}
	return beside("the deletion guard differs from what this version of plumbline installs, so that NodePools and nodes can be deleted by accident: "+strings.Join(found, "; ")+
		": apply manifests/guard and manifests/rbac-charts of this version again (helm upgrade, or kubectl apply -k), or run the daemon with --deletion-guard=false", a.Denied)
}

// first names the first policy that is missing or altered, how many more there are, and what to install.
func first(found []string, from string) string {
	switch len(found) {
	case 0:
		return ""
	case 1:
		return found[0] + ": apply " + from
	case 2:
		return found[0] + ", and 1 other policy or binding is missing or altered: apply " + from
	}
	return fmt.Sprintf("%s, and %d other policies or bindings are missing or altered: apply %s", found[0], len(found)-1, from)
}

// Reason returns the reason of the condition; empty if nothing is wrong.
func (a Answer) Reason() string {
	switch {
	case a.Unread != "":
		return v1alpha1.ReasonGuardUnknown
	case len(a.Missing) > 0:
		return v1alpha1.ReasonGuardMissing
	case len(a.Altered) > 0:
		return v1alpha1.ReasonGuardAltered
	case len(a.Denied) > 0:
		return v1alpha1.ReasonGuardUnknown
	}
	return ""
}

// ChartsMessage returns one line about the policies for plumbline's own ServiceAccount that are missing or altered;
// empty if there are none.
func (a Answer) ChartsMessage() string {
	if a.Unread != "" {
		return "whether the API server limits what plumbline's ServiceAccount may write is unknown: " + a.Unread
	}
	return beside(first(slices.Concat(a.ChartsMissing, a.ChartsAltered), "manifests/core and manifests/rbac-charts"), a.ChartsDenied)
}

// ChartsDetails returns ChartsMessage with each policy, what its absence allows, and how to correct it, for an event.
func (a Answer) ChartsDetails() string {
	found := slices.Concat(a.ChartsMissing, a.ChartsAltered)
	if a.Unread != "" || len(found) == 0 {
		return a.ChartsMessage()
	}
	return beside("the policies that limit what plumbline's ServiceAccount may write differ from those that this version of plumbline installs, so that an attacker with its token could do more: "+
		strings.Join(found, "; ")+": apply manifests/core and manifests/rbac-charts of this version again (helm upgrade, or kubectl apply -k)", a.ChartsDenied)
}

// ChartsReason returns the reason for ChartsMessage; empty if there is none.
func (a Answer) ChartsReason() string {
	switch {
	case a.Unread != "":
		return v1alpha1.ReasonChartPoliciesUnknown
	case len(a.ChartsMissing) > 0:
		return v1alpha1.ReasonChartPoliciesMissing
	case len(a.ChartsAltered) > 0:
		return v1alpha1.ReasonChartPoliciesAltered
	case len(a.ChartsDenied) > 0:
		return v1alpha1.ReasonChartPoliciesUnknown
	}
	return ""
}

// beside adds to a message which policies may not be read; the message may be empty.
func beside(message string, denied []string) string {
	if len(denied) == 0 {
		return message
	}
	unknown := fmt.Sprintf("unknown whether %s differs from what this version installs, because plumbline's role may not read it: "+
		"apply manifests/core and manifests/rbac-charts of this version", strings.Join(denied, ", "))
	return strings.TrimPrefix(message+"; "+unknown, "; ")
}

// note adds the result of Compare for a policy.
func (a *Answer) note(of Guard, words string, altered bool) {
	to := map[bool]*[]string{false: &a.Missing, true: &a.Altered}[altered]
	if of.Limits {
		to = map[bool]*[]string{false: &a.ChartsMissing, true: &a.ChartsAltered}[altered]
	}
	*to = append(*to, words)
}

// deny adds a policy that RBAC does not allow to read.
func (a *Answer) deny(of Guard) {
	to := &a.Denied
	if of.Limits {
		to = &a.ChartsDenied
	}
	*to = append(*to, "ValidatingAdmissionPolicy "+of.Policy.Name)
}

// Checker reads the policies, but seldom, because each takes a request. The zero value has read none. One Checker
// serves all NodeSyncs of a cluster.
type Checker struct {
	// WithoutGuard is true if the deletion guard is not installed on purpose: its policies are not looked for, but
	// for the one that could deny Karpenter something, and those that limit plumbline.
	WithoutGuard bool

	mu     sync.Mutex
	known  map[Setup]checked
	denied map[string]denied
}

type checked struct {
	at     time.Time
	answer Answer
}

// Beside returns the state of the guard that belongs to the Karpenter settings in Git. It is empty if these are
// unknown, as in a deletion, which no longer reads Git. It may take a dozen requests, so no write of a reconcile waits
// for it.
func (a *Checker) Beside(ctx context.Context, reader client.Reader, namespace string, k *render.Karpenter, now time.Time) Answer {
	if k == nil || a == nil {
		return Answer{}
	}
	setup := Setup{Namespace: namespace, Karpenter: k.Namespace, Charts: k.Management == render.Managed, WithoutGuard: a.WithoutGuard}
	return a.Look(ctx, reader, setup, now)
}

// Look returns the state of the guard; empty if a is nil. If a read fails temporarily, it returns the previous state.
func (a *Checker) Look(ctx context.Context, reader client.Reader, s Setup, now time.Time) Answer {
	if a == nil {
		return Answer{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.known[s]
	if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < readInterval {
		return last.answer
	}
	answer, err := read(ctx, reader, s)
	switch {
	case err == nil:
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		answer = Answer{Looked: true, Unread: readFailure(err)}
	case last.answer.Known:
		answer = last.answer
	default:
		answer = Answer{Looked: true, Unread: readFailure(err)}
	}
	if a.known == nil {
		a.known = map[Setup]checked{}
	}
	a.known[s] = checked{at: now, answer: answer}
	return answer
}

func readFailure(err error) string {
	if meta.IsNoMatchError(err) {
		return "it has no ValidatingAdmissionPolicies, which are of Kubernetes 1.30"
	}
	return fault.Classify(fmt.Errorf("read the policies of the deletion guard: %w", err)).Error()
}

// read reads each policy from the API server. If RBAC allows only some of them, the others are in the answer; if none, it is an error.
func read(ctx context.Context, reader client.Reader, s Setup) (Answer, error) {
	wanted, err := Wanted(s)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Looked: true, Known: true}
	var denied error
	for _, want := range wanted {
		live, err := readGuard(ctx, reader, want.Policy.Name)
		switch {
		case apierrors.IsForbidden(err):
			denied = err
			answer.deny(want)
			continue
		case err != nil:
			return Answer{}, err
		}
		if words, altered := Compare(want, live); words != "" {
			answer.note(want, words, altered)
		}
	}
	if len(answer.Denied)+len(answer.ChartsDenied) == len(wanted) {
		return Answer{}, denied
	}
	return answer, nil
}

// get reads an object; it leaves it empty if there is none.
func get(ctx context.Context, reader client.Reader, name string, object client.Object) error {
	return client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Name: name}, object))
}

// Names in the manifests for which the Helm chart has values.
const (
	manifestNamespace = "plumbline-system"
	manifestKarpenter = "kube-system"
)

// Setup is what the policies of a cluster depend on.
type Setup struct {
	// Namespace is that of plumbline, and Karpenter that of Karpenter.
	Namespace, Karpenter string
	// Charts is true if plumbline installs Karpenter's charts: then Helm's release records are guarded, too, and
	// policies limit what plumbline writes.
	Charts bool
	// WithoutGuard is true if the deletion guard is not installed on purpose.
	WithoutGuard bool
}

// Guard is one policy with its binding; each is nil if the cluster does not have it.
type Guard struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
	// Limits is true if it limits what plumbline itself may write, and is not part of the deletion guard.
	Limits bool
}

// Wanted returns the policies that this version of plumbline installs, by name, in the order of the manifests.
func Wanted(s Setup) ([]Guard, error) {
	var files []string
	if !s.WithoutGuard {
		files = guard.Policies()
		if s.Charts {
			files = append(files, rbaccharts.Policies()...)
		}
	}
	guards, err := s.decodeAll(files)
	if err != nil {
		return nil, err
	}
	files = nil
	if s.Charts {
		files = append(files, rbaccharts.Limits())
	}
	limits, err := s.decodeAll(append(files, core.Limits()))
	for i := range limits {
		limits[i].Limits = true
	}
	return append(guards, limits...), err
}

// decodeAll returns the policies of some manifests, for the namespaces of the cluster.
func (s Setup) decodeAll(files []string) ([]Guard, error) {
	var found []Guard
	for _, file := range files {
		file = strings.NewReplacer(manifestNamespace, s.Namespace, manifestKarpenter, s.Karpenter).Replace(file)
		for document := range strings.SplitSeq(file, "\n---\n") {
			one, err := decode(document, found)
			if err != nil {
				return nil, fmt.Errorf("read the manifests of the deletion guard: %w", err)
			}
			found = one
		}
	}
	return found, nil
}

// decode adds a document to the policies before it: a binding follows its policy.
func decode(document string, before []Guard) ([]Guard, error) {
	kind := struct {
		Kind string `json:"kind"`
	}{}
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return nil, err
	}
	switch {
	case kind.Kind == "": // a comment
		return before, nil
	case kind.Kind == "ValidatingAdmissionPolicy":
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		err := yaml.UnmarshalStrict([]byte(document), policy)
		return append(before, Guard{Policy: policy}), err
	case kind.Kind == "ValidatingAdmissionPolicyBinding" && len(before) > 0:
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		err := yaml.UnmarshalStrict([]byte(document), binding)
		before[len(before)-1].Binding = binding
		return before, err
	}
	return nil, fmt.Errorf("a document is of kind %q, or a binding is before its policy", kind.Kind)
}
