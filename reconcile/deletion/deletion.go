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

	"github.com/plumbline-dev/plumbline/manifests/guard"
	rbaccharts "github.com/plumbline-dev/plumbline/manifests/rbac-charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// every is the least time between two looks: no policy is watched, as RBAC cannot allow a watch by name.
const every = 20 * time.Second

// Answer is what is known of the deletion guard. The zero value is that nobody has looked.
type Answer struct {
	// Looked reports whether it was looked for, and Known that all of it was read.
	Looked, Known bool
	// Missing and Altered are the policies of the deletion guard that are missing and altered, in words.
	Missing, Altered []string
	// ChartsMissing and ChartsAltered are those that limit what plumbline itself may write.
	ChartsMissing, ChartsAltered []string
	// Unread is why it cannot be read.
	Unread string
}

// Words are one line about what is wrong and what to do about it; empty if nothing is.
func (a Answer) Words() string {
	if a.Unread != "" {
		return "whether the API server denies the accidental deletion of nodes is unknown: " + a.Unread
	}
	return first(slices.Concat(a.Missing, a.Altered), "manifests/guard")
}

// Details are Words with each policy, what its absence allows, and the ways to correct it, for an event.
func (a Answer) Details() string {
	found := slices.Concat(a.Missing, a.Altered)
	if a.Unread != "" || len(found) == 0 {
		return a.Words()
	}
	return "the deletion guard differs from what this version of plumbline installs, so that NodePools and nodes can be deleted by accident: " + strings.Join(found, "; ") +
		": apply manifests/guard and manifests/rbac-charts of this version again (helm upgrade, or kubectl apply -k), or run the daemon with --deletion-guard=false"
}

// first names the first of the policies that are missing or altered, how many more there are, and what to install.
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

// Reason is the word for what is wrong; empty if nothing is.
func (a Answer) Reason() string {
	switch {
	case a.Unread != "":
		return v1alpha1.ReasonGuardUnknown
	case len(a.Missing) > 0:
		return v1alpha1.ReasonGuardMissing
	case len(a.Altered) > 0:
		return v1alpha1.ReasonGuardAltered
	}
	return ""
}

// ChartsMessage is one line about the policies on plumbline's own ServiceAccount that are missing or altered; empty if none is.
func (a Answer) ChartsMessage() string {
	if a.Unread != "" {
		return "whether the API server limits what plumbline's ServiceAccount may write is unknown: " + a.Unread
	}
	return first(slices.Concat(a.ChartsMissing, a.ChartsAltered), "manifests/rbac-charts")
}

// ChartsDetails are ChartsMessage with each policy, what its absence allows, and the ways to correct it, for an event.
func (a Answer) ChartsDetails() string {
	found := slices.Concat(a.ChartsMissing, a.ChartsAltered)
	if a.Unread != "" || len(found) == 0 {
		return a.ChartsMessage()
	}
	return "the policies that limit what plumbline's ServiceAccount may write differ from those that this version of plumbline installs, so that an attacker with its token could do more: " +
		strings.Join(found, "; ") + ": apply manifests/rbac-charts of this version again (helm upgrade, or kubectl apply -k)"
}

// ChartsReason is the reason for ChartsMessage; empty if there is none.
func (a Answer) ChartsReason() string {
	switch {
	case a.Unread != "":
		return v1alpha1.ReasonChartPoliciesUnknown
	case len(a.ChartsMissing) > 0:
		return v1alpha1.ReasonChartPoliciesMissing
	case len(a.ChartsAltered) > 0:
		return v1alpha1.ReasonChartPoliciesAltered
	}
	return ""
}

// note adds what Compare says of a policy.
func (a *Answer) note(policy, words string, altered bool) {
	to := map[bool]*[]string{false: &a.Missing, true: &a.Altered}[altered]
	if strings.HasPrefix(policy, chartPolicies) {
		to = map[bool]*[]string{false: &a.ChartsMissing, true: &a.ChartsAltered}[altered]
	}
	*to = append(*to, words)
}

// Asker looks for the policies, seldom: each is a request. The zero value has looked for none. It is
// for all NodeSyncs of a cluster.
type Asker struct {
	// WithoutGuard is true if the deletion guard is not installed on purpose: its policies are not looked for, but
	// for the one that could deny Karpenter something, and those that limit plumbline.
	WithoutGuard bool

	mu     sync.Mutex
	known  map[Setup]asked
	denied map[string]denied
}

type asked struct {
	at     time.Time
	answer Answer
}

// Beside is what is known of the guard now, by what Git wants of Karpenter: nothing where that is not known,
// as in a deletion that reads no Git any more. It may take a dozen requests: no write of a reconcile waits for it.
func (a *Asker) Beside(ctx context.Context, reader client.Reader, namespace string, k *render.Karpenter, now time.Time) Answer {
	if k == nil || a == nil {
		return Answer{}
	}
	setup := Setup{Namespace: namespace, Karpenter: k.Namespace, Charts: k.Management == render.Managed, WithoutGuard: a.WithoutGuard}
	return a.Look(ctx, reader, setup, now)
}

// Look is what is known of the guard now; nothing where a is nil. What cannot be read for a while leaves what was known.
func (a *Asker) Look(ctx context.Context, reader client.Reader, s Setup, now time.Time) Answer {
	if a == nil {
		return Answer{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.known[s]
	if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < every {
		return last.answer
	}
	answer, err := read(ctx, reader, s)
	switch {
	case err == nil:
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		answer = Answer{Looked: true, Unread: unread(err)}
	case last.answer.Known:
		answer = last.answer
	default:
		answer = Answer{Looked: true, Unread: unread(err)}
	}
	if a.known == nil {
		a.known = map[Setup]asked{}
	}
	a.known[s] = asked{at: now, answer: answer}
	return answer
}

func unread(err error) string {
	if meta.IsNoMatchError(err) {
		return "it has no ValidatingAdmissionPolicies, which are of Kubernetes 1.30"
	}
	return fault.Classify(fmt.Errorf("read the policies of the deletion guard: %w", err)).Error()
}

// read asks the API server for each policy.
func read(ctx context.Context, reader client.Reader, s Setup) (Answer, error) {
	wanted, err := Wanted(s)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Looked: true, Known: true}
	for _, want := range wanted {
		live, err := readGuard(ctx, reader, want.Policy.Name)
		if err != nil {
			return Answer{}, err
		}
		if words, altered := Compare(want, live); words != "" {
			answer.note(want.Policy.Name, words, altered)
		}
	}
	return answer, nil
}

// get reads an object, and leaves it empty if there is none.
func get(ctx context.Context, reader client.Reader, name string, object client.Object) error {
	return client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Name: name}, object))
}

// Names of the manifests that the Helm chart has values for.
const (
	manifestNamespace = "plumbline-system"
	manifestKarpenter = "kube-system"
)

// chartPolicies is what the names of the policies begin with that limit what plumbline itself may write.
const chartPolicies = "plumbline-charts-"

// Setup is what the policies of a cluster depend on.
type Setup struct {
	// Namespace is plumbline's, and Karpenter that of Karpenter.
	Namespace, Karpenter string
	// Charts is true if plumbline installs Karpenter's charts: Helm's records of them are guarded too, and policies limit
	// what plumbline writes.
	Charts bool
	// WithoutGuard is true if the deletion guard is not installed on purpose.
	WithoutGuard bool
}

// Guard is one policy with its binding; nil is what a cluster does not have.
type Guard struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
}

// Wanted are the policies that this version of plumbline installs, by name, in the order of the manifests.
func Wanted(s Setup) ([]Guard, error) {
	var files []string
	if !s.WithoutGuard {
		files = guard.Policies()
		if s.Charts {
			files = append(files, rbaccharts.Policies()...)
		}
	}
	if s.Charts {
		files = append(files, rbaccharts.Limits())
	}
	files = append(files, guard.Limits())
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
