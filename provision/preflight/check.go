package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Status is how serious a finding is, and the result of a check.
type Status string

// The statuses. Of the findings of a check, the most serious decides.
const (
	OK Status = "ok"
	// Warning is about what causes no outage, or only with features that may not be in use.
	Warning Status = "warning"
	// Unknown means that the check could not read something.
	Unknown Status = "unknown"
	// Problem is about what has caused outages.
	Problem Status = "problem"
)

// severity orders the statuses.
var severity = map[Status]int{OK: 0, Warning: 1, Unknown: 2, Problem: 3}

// Docs is the page that describes the checks; each has an anchor with its ID.
const Docs = "docs/how-to/doctor.md"

// PolicyFile contains the permissions of the queries.
const PolicyFile = "manifests/iam-policy-doctor.json"

// Finding is one thing that a check has found.
type Finding struct {
	Status Status `json:"status"`
	// Message is what was found, on which object.
	Message string `json:"message"`
	// Fix is a command, a statement or a change that corrects it; it may have several lines.
	Fix string `json:"fix,omitempty"`
	// Action is the one that is missing if the finding is Unknown because a call was denied.
	Action string `json:"action,omitempty"`
}

// Result is the result of one check.
type Result struct {
	// Check is the ID of the check.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Looked is what the check looked at.
	Looked string `json:"looked"`
	// Findings are sorted, the most serious first; none if the check is OK.
	Findings []Finding `json:"findings,omitempty"`
	// Why is why the check matters.
	Why string `json:"why"`
	// Docs is the section that describes it.
	Docs string `json:"docs"`
}

// Check is one check.
type Check struct {
	// ID names it in --only, in results and in the documentation.
	ID string
	// Why is why it matters: the outage that it prevents.
	Why string
	// needs are what Read has to read for it.
	needs []source
	// look returns what the check looked at, and its findings. Findings that are OK are omitted.
	look func(Observed) (looked string, found []Finding)
}

// Checks returns all checks, in the order of their results.
func Checks() []Check {
	return []Check{
		controllerRole(),
		controllerReach(),
		nodeRole(),
		interruptionQueue(),
		launchValidation(),
		network(),
		images(),
		capacity(),
		budgets(),
		undrainable(),
		daemonSets(),
		placement(),
		otherControllers(),
		support(),
		leftovers(),
	}
}

// Select returns the checks with these IDs, in the order of Checks; all if there are none. Errors: an unknown ID.
func Select(ids []string) ([]Check, error) {
	all := Checks()
	if len(ids) == 0 {
		return all, nil
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.ID)
	}
	for _, id := range ids {
		if !slices.Contains(names, id) {
			return nil, fmt.Errorf("no check is named %q: want one of %s", id, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(c Check) bool { return !slices.Contains(ids, c.ID) }), nil
}

// Run returns the result of each check.
func Run(checks []Check, o Observed) []Result {
	results := make([]Result, 0, len(checks))
	for _, c := range checks {
		results = append(results, c.run(o))
	}
	return results
}

func (c Check) run(o Observed) Result {
	looked, found := c.look(o)
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.Status == OK })
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(severity[b.Status], severity[a.Status]) })
	r := Result{Check: c.ID, Status: OK, Looked: looked, Findings: distinct(found), Why: c.Why, Docs: Docs + "#" + c.ID}
	if len(found) > 0 {
		r.Status = found[0].Status
	}
	return r
}

// distinct returns each finding once: several calls may be missing the same action.
func distinct(found []Finding) []Finding {
	var all []Finding
	for _, f := range found {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// Problems and Unanswered report whether a result is a Problem, and whether one is Unknown.
func Problems(results []Result) bool { return has(results, Problem) }

// Unanswered reports whether a check could not read something.
func Unanswered(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool {
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Status == Unknown })
	})
}

func has(results []Result, s Status) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Status == s })
}

// unread returns why a check is unknown, from an error of AWS or of the API server: each denied call is one finding. What does
// not exist is a Problem, except the EKS cluster: its name or the account may be wrong.
func unread(err error) []Finding {
	var denied []Finding
	for _, call := range cloud.DeniedCalls(err) {
		f := Finding{Status: Unknown, Message: fmt.Sprintf("AWS denies %s: %s", call.Action, call.Detail), Action: call.Action}
		if f.Fix = fmt.Sprintf("allow %s on %s to the credentials in use, as %s does", call.Action, call.Resource, PolicyFile); call.Explicit {
			f.Fix = fmt.Sprintf("a policy denies %s to the credentials in use explicitly: use other credentials, or change its Deny", call.Action)
		}
		denied = append(denied, f)
	}
	var forbidden *apierrors.StatusError
	var missing *cloud.NotFoundError
	var credentials *cloud.CredentialsError
	switch {
	case len(denied) > 0:
		return denied
	case errors.As(err, &credentials):
		what, _, _ := strings.Cut(err.Error(), ";") // the rest is about plumbline's ServiceAccount
		fix := "check AWS_PROFILE, or the role of this pipeline"
		if credentials.Skewed {
			fix = "synchronize the clock of this machine"
		}
		return []Finding{{Status: Unknown, Message: what, Fix: fix}}
	case errors.As(err, &missing) && missing.Check != "":
		what := missing.What + " does not exist in " + missing.Where
		return []Finding{{Status: Problem, Message: what, Fix: "create it, or correct " + missing.Check}}
	case errors.As(err, &forbidden) && apierrors.IsForbidden(err):
		return []Finding{{
			Status: Unknown, Message: "the API server denies a request: " + forbidden.ErrStatus.Message, Action: actionOf(forbidden),
			Fix: "allow it to the user of the kubeconfig in use: kubectl auth can-i --list",
		}}
	}
	return []Finding{{Status: Unknown, Message: err.Error()}}
}

// actionOf returns the resource that the API server denies, such as "deployments.apps".
func actionOf(err *apierrors.StatusError) string {
	if d := err.ErrStatus.Details; d != nil && d.Group != "" {
		return d.Kind + "." + d.Group
	} else if d != nil {
		return d.Kind
	}
	return ""
}
