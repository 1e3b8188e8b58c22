package deletion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// FinalizerPolicy is the policy that denies the removal of Karpenter's finalizers to everyone but Karpenter and plumbline.
const FinalizerPolicy = "plumbline-guard-finalizers"

// karpenterAccounts is the variable of that policy that lists the ServiceAccounts of Karpenter's controller, as user names.
const karpenterAccounts = "karpenterAccounts"

// accountPrefix is what the user name of a ServiceAccount begins with.
const accountPrefix = "system:serviceaccount:"

// Denial reports whether the deletion guard denies Karpenter's controller the removal of its own finalizers. NodeClaims then
// keep them after their instances are terminated. The zero value is that it does not, or that nobody has looked.
type Denial struct {
	// Looked is true if the policy and the controller's ServiceAccounts were looked for.
	Looked bool
	// Accounts are the ServiceAccounts that are denied, as user names.
	Accounts []string
	// Unknown is why nothing tells whether they are denied.
	Unknown string
}

// Message says what is denied to whom, and what to do about it; empty if nothing is denied.
func (d Denial) Message() string {
	const policy = "ValidatingAdmissionPolicy/" + FinalizerPolicy
	switch {
	case d.Unknown != "":
		return "whether " + policy + " denies Karpenter's controller the removal of its own finalizers is unknown: " + d.Unknown
	case len(d.Accounts) > 0:
		return fmt.Sprintf("%s denies %s, under which Karpenter's controller runs, the removal of Karpenter's finalizers, so that NodeClaims would hang after their instances are terminated: "+
			"add the account to the policy's variable %s (Helm: karpenterNamespace and karpenterServiceAccount)", policy, strings.Join(d.Accounts, ", "), karpenterAccounts)
	}
	return ""
}

// Deny compares the live policy with the ServiceAccounts that Karpenter's controller runs under.
func Deny(live Guard, accounts []string) Denial {
	denial := Denial{Looked: true}
	if live.Policy == nil || live.Binding == nil || !slices.Contains(live.Binding.Spec.ValidationActions, admissionv1.Deny) {
		return denial
	}
	at := slices.IndexFunc(live.Policy.Spec.Variables, func(v admissionv1.Variable) bool { return v.Name == karpenterAccounts })
	if at < 0 {
		denial.Unknown = "the policy has no variable " + karpenterAccounts + ": apply manifests/guard of this version again (helm upgrade, or kubectl apply -k)"
		return denial
	}
	allowed, ok := accountList(live.Policy.Spec.Variables[at].Expression)
	if !ok {
		denial.Unknown = "the policy's variable " + karpenterAccounts + ` is not a list of texts such as ["system:serviceaccount:kube-system:karpenter"]`
		return denial
	}
	for _, account := range accounts {
		if !slices.Contains(allowed, account) {
			denial.Accounts = append(denial.Accounts, account)
		}
	}
	return denial
}

// accountList are the ServiceAccounts that an expression lists; false if it is anything else.
func accountList(expression string) (accounts []string, ok bool) {
	if json.Unmarshal([]byte(expression), &accounts) != nil {
		return nil, false
	}
	return accounts, !slices.ContainsFunc(accounts, func(account string) bool {
		namespace, name, named := strings.Cut(strings.TrimPrefix(account, accountPrefix), ":")
		return !strings.HasPrefix(account, accountPrefix) || !named || namespace == "" || name == ""
	})
}

// Denied reads the policy from the API server, and compares it with the ServiceAccounts that Karpenter's controller runs under. An API server
// without such policies (before Kubernetes 1.30) denies nothing.
func Denied(ctx context.Context, reader client.Reader, accounts []string) Denial {
	live, err := readGuard(ctx, reader, FinalizerPolicy)
	switch {
	case meta.IsNoMatchError(err): // before Kubernetes 1.30
		return Denial{Looked: true}
	case err != nil:
		return Denial{Looked: true, Unknown: fault.Classify(fmt.Errorf("read the policies of the deletion guard: %w", err)).Error()}
	}
	return Deny(live, accounts)
}

// readGuard reads a policy and its binding; each is nil if there is none.
func readGuard(ctx context.Context, reader client.Reader, name string) (Guard, error) {
	live := Guard{Policy: &admissionv1.ValidatingAdmissionPolicy{}, Binding: &admissionv1.ValidatingAdmissionPolicyBinding{}}
	if err := get(ctx, reader, name, live.Policy); err != nil {
		return Guard{}, err
	}
	if err := get(ctx, reader, name, live.Binding); err != nil {
		return Guard{}, err
	}
	if live.Policy.UID == "" {
		live.Policy = nil
	}
	if live.Binding.UID == "" {
		live.Binding = nil
	}
	return live, nil
}

// Denied reads the policy now, and compares it with the ServiceAccounts of Karpenter's controller. It reads nothing if a is nil.
func (a *Asker) Denied(ctx context.Context, reader client.Reader, accounts []string) Denial {
	if a == nil {
		return Denial{}
	}
	return Denied(ctx, reader, accounts)
}

// DeniedLately is Denied, with a request at most every 20 seconds for the same accounts.
func (a *Asker) DeniedLately(ctx context.Context, reader client.Reader, accounts []string, now time.Time) Denial {
	if a == nil {
		return Denial{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := strings.Join(accounts, " ")
	last := a.denied[key]
	if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < every {
		return last.denial
	}
	last = denied{at: now, denial: Denied(ctx, reader, accounts)}
	if a.denied == nil {
		a.denied = map[string]denied{}
	}
	a.denied[key] = last
	return last.denial
}

type denied struct {
	at     time.Time
	denial Denial
}
