package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Keys of the extra fields of a user that comes by IAM, as EKS sets them
// (sigs.k8s.io/aws-iam-authenticator, pkg/server).
const (
	canonicalARN = "canonicalArn"
	sessionName  = "sessionName"
)

// ExtraKeys are the extra fields of a user that an Approval records and the policy checks.
func ExtraKeys() []string {
	return []string{"arn", canonicalARN, "principalId", sessionName, "accessKeyId"}
}

// principal is one who counts once: the Approvals that share an identity.
type principal struct {
	identities sets.Set[string]
	approvals  []*v1alpha1.Approval
}

// name is the author as people know it. If the role's sessions are persons and the user name does not tell
// them apart, the session's name stands beside it.
func (p principal) name(trusted []string) string {
	spec := &p.approvals[0].Spec
	if session := trustedSession(spec, trusted); session != "" && !strings.Contains(spec.Author, session) {
		return fmt.Sprintf("%s (session %s)", spec.Author, session)
	}
	return spec.Author
}

// principals groups Approvals by who counts once.
func principals(of []*v1alpha1.Approval, trusted []string) []principal {
	of = slices.SortedFunc(slices.Values(of), func(a, b *v1alpha1.Approval) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Spec.Author), strings.ToLower(b.Spec.Author)), cmp.Compare(a.Spec.Author, b.Spec.Author), cmp.Compare(a.Name, b.Name))
	})
	var all []principal
	for _, a := range of {
		joined := principal{identities: sets.New(identities(&a.Spec, trusted)...)}
		var others []principal
		for _, p := range all {
			if !p.identities.HasAny(joined.identities.UnsortedList()...) {
				others = append(others, p)
				continue
			}
			joined.identities = joined.identities.Union(p.identities)
			joined.approvals = append(joined.approvals, p.approvals...)
		}
		joined.approvals = append(joined.approvals, a)
		all = append(others, joined)
	}
	return all
}

// identities are the names by which the author of an Approval is recognized. Letters count in either case:
// identity providers have names of one person in several.
//   - A session of a trusted role is the person that it is named after, in whichever role and by whichever
//     authenticator.
//   - A caller by IAM is the user or the role. The holder of a role chooses its session's name, which
//     is part of the user name, so that it does not count.
//   - Everybody is their user name, and the UID that the authenticator knows.
func identities(spec *v1alpha1.ApprovalSpec, trusted []string) []string {
	person := func(name string) string { return "user " + strings.ToLower(name) }
	if session := trustedSession(spec, trusted); session != "" {
		return []string{person(session)}
	}
	all := []string{person(spec.Author)}
	if spec.AuthorUID != "" {
		all = append(all, "uid "+spec.AuthorUID)
	}
	if arn := iamPrincipal(spec); arn != "" {
		all = append(all, "iam "+arn)
	}
	return all
}

// trustedSession is the session name of an author whose role's sessions are persons; empty for others.
func trustedSession(spec *v1alpha1.ApprovalSpec, trusted []string) string {
	session, arn := first(spec.AuthorExtra[sessionName]), iamPrincipal(spec)
	if session == "" || arn == "" || !slices.ContainsFunc(trusted, func(role string) bool { return principalOf(role) == arn }) {
		return ""
	}
	return session
}

// iamPrincipal is the IAM user or role of an author; empty if the author does not come by IAM.
func iamPrincipal(spec *v1alpha1.ApprovalSpec) string {
	return principalOf(cmp.Or(first(spec.AuthorExtra[canonicalARN]), spec.Author))
}

// principalOf is the IAM user or role of an ARN, without what its holder can choose: the session name of a
// role, and the name of a federated user, which the caller of GetFederationToken chooses. A role's path is
// left out: sessions do not have it, and names are unique in an account without it. It is empty for any
// other text.
func principalOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" {
		return ""
	}
	of := func(resource string) string {
		return strings.Join([]string{"arn", parts[1], "iam", "", parts[4], resource}, ":")
	}
	path := strings.Split(parts[5], "/")
	switch {
	case parts[2] == "sts" && path[0] == "assumed-role" && len(path) > 1:
		return of("role/" + path[1])
	case parts[2] == "sts" && path[0] == "federated-user":
		return of("federated-user")
	case parts[2] == "iam" && path[0] == "role":
		return of("role/" + path[len(path)-1])
	case parts[2] == "iam":
		return arn
	}
	return ""
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// countsOnce explains why Approvals of several users are of one principal; empty if they are of one user.
func (p principal) countsOnce() string {
	a := p.approvals[0]
	for _, b := range p.approvals[1:] {
		if strings.EqualFold(a.Spec.Author, b.Spec.Author) {
			continue
		}
		both := "both are one user"
		if arn := iamPrincipal(&a.Spec); arn != "" && arn == iamPrincipal(&b.Spec) {
			both = "both are " + arn + ", whose sessions count as one unless spec.guard.trustedSessions lists the role"
		}
		return fmt.Sprintf("Approval %s by %s and Approval %s by %s count once: %s", a.Name, a.Spec.Author, b.Name, b.Spec.Author, both)
	}
	return ""
}
