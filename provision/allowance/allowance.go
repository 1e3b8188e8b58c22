package allowance

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// PublicRepository is where Karpenter is released, and the one that charts come from
// by default.
const PublicRepository = "oci://public.ecr.aws/karpenter"

// Everything allows, as one of the Values, all of them.
const Everything = "*"

// Allowance is what a NodeSync allows. The zero value is the default.
type Allowance struct {
	// Repositories that charts may come from, as plumbline.yaml has them. Empty:
	// PublicRepository.
	Repositories []string
	// Versions is a range of semantic versions. Empty: any.
	Versions string
	// Digests that the charts may have, as sha256:<hex>. Empty: any.
	Digests []string
	// Values that may be set beyond the table, by path; each allows all below it.
	Values []string
	// ControllerRoles are ARNs of the IAM roles that the service account may take.
	ControllerRoles []string
	// CABundle is the cluster's own authorities, PEM in base64, which the controller has where no value
	// says others; empty where they are not known.
	CABundle string
	// PodSecurity is the level that the controller's pods have to meet. Empty: Restricted.
	PodSecurity Level
}

// Level of the Pod Security Standards.
type Level string

// The Levels, the strictest first.
const (
	Restricted Level = "Restricted"
	Baseline   Level = "Baseline"
	Privileged Level = "Privileged"
)

// Request is what a commit asks for.
type Request struct {
	// Repository as plumbline.yaml has it; empty for the public one.
	Repository string
	// Version of the charts; empty for whatever is installed.
	Version string
	// ControllerRole is the ARN of an IAM role; empty for none.
	ControllerRole string
	// Secrets says that values come out of Secrets.
	Secrets bool
}

// Refusal is one thing that may not come from Git.
type Refusal struct {
	// What is refused: "values.controller.image.tag".
	What string
	// Why it matters, as the end of a sentence.
	Why string
	// Field of the NodeSync and Entry of it that would allow this. Empty where nothing
	// allows it.
	Field, Entry string
	// Unknown says that it is a value that no chart known here has.
	Unknown bool
	// Rendered says that it is about what a chart renders to, and may have words that a
	// template made of values.
	Rendered bool
}

// The fields of a NodeSync.
const (
	fieldRepositories    = "spec.charts.allow.repositories"
	fieldVersions        = "spec.charts.allow.versions"
	fieldDigests         = "spec.charts.allow.digests"
	fieldValues          = "spec.charts.allow.values"
	fieldControllerRoles = "spec.charts.allow.controllerRoles"
	fieldPodSecurity     = "spec.charts.allow.podSecurity"
)

// String says what is refused, why, and the line that would allow it.
func (r Refusal) String() string {
	text := r.What + " " + r.Why
	switch r.Field {
	case "":
		return text + " (no setting allows that)"
	case fieldVersions, fieldPodSecurity:
		return fmt.Sprintf("%s (to allow it: %s: %q)", text, r.Field, r.Entry)
	}
	return fmt.Sprintf("%s (to allow it: %s: [%q])", text, r.Field, r.Entry)
}

// RefusedError says that a commit asks for what the NodeSync does not allow.
type RefusedError struct {
	Refusals []Refusal
}

// most are the Refusals that a message names.
const most = 5

// Error names each of them, with the line of the NodeSync that would allow it.
func (e *RefusedError) Error() string {
	var words []string
	for _, refusal := range e.Refusals[:min(most, len(e.Refusals))] {
		words = append(words, refusal.String())
	}
	text := "refused, this may not come from Git: " + strings.Join(words, "; ")
	if more := len(e.Refusals) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// OnlyGit says that what is refused is what Git asks for, in Git's words.
func (e *RefusedError) OnlyGit() bool {
	return !slices.ContainsFunc(e.Refusals, func(r Refusal) bool { return r.Rendered })
}

// Refuse makes an error of Refusals; nil of none.
func Refuse(refusals []Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	return &RefusedError{Refusals: refusals}
}

// Everything says that any value may be set.
func (a Allowance) Everything() bool { return slices.Contains(a.Values, Everything) }

// Check says what of a Request is refused. Nothing of it has been fetched by then.
func (a Allowance) Check(r Request) []Refusal {
	var found []Refusal
	if !a.allowsRepository(r.Repository) {
		found = append(found, Refusal{
			What: "repository " + bare(r.Repository), Why: "is not one that this NodeSync takes charts from, which are " + strings.Join(a.repositories(), ", "),
			Field: fieldRepositories, Entry: bare(r.Repository),
		})
	}
	if r.Version != "" {
		found = append(found, a.checkVersion(r.Version)...)
	}
	if r.ControllerRole != "" && !slices.Contains(a.ControllerRoles, r.ControllerRole) {
		found = append(found, Refusal{
			What: "cluster.controllerRole " + r.ControllerRole, Why: "changes the identity that Karpenter has in AWS", Field: fieldControllerRoles, Entry: r.ControllerRole,
		})
	}
	return found
}

func (a Allowance) checkVersion(version string) []Refusal {
	if a.allowsVersion(version) {
		return nil
	}
	return []Refusal{{
		What: "version " + version, Why: "is not in the range " + a.Versions, Field: fieldVersions, Entry: a.Versions + " || " + version,
	}}
}

// CheckDigests says which of the charts that were found is none of those that are
// allowed. Charts that a commit can change render nothing with values out of a Secret:
// what they render to, or that they fail, could tell it in any encoding, bit by bit.
func (a Allowance) CheckDigests(r Request, digests ...string) []Refusal {
	var found []Refusal
	for _, digest := range digests {
		switch {
		case len(a.Digests) > 0 && !slices.Contains(a.Digests, digest):
			found = append(found, Refusal{What: "a chart with digest " + digest, Why: "is none of those that this NodeSync names", Field: fieldDigests, Entry: digest})
		case len(a.Digests) == 0 && r.Secrets && InGit(r.Repository):
			found = append(found, Refusal{
				What: "valuesFrom a Secret with charts in Git", Why: "would let everyone who can change the chart with digest " + digest + " read the Secret",
				Field: fieldDigests, Entry: digest,
			})
		}
	}
	return found
}

// CheckInstalled says why a chart that was installed once may not be again: its version, or
// its digest, is none that is allowed now. Of the digest its beginning is known, or nothing.
func (a Allowance) CheckInstalled(version, digest string) []Refusal {
	found := a.checkVersion(version)
	if len(a.Digests) > 0 && !a.names(digest) {
		what := "the chart of version " + version + ", whose digest begins with " + digest + ","
		if digest == "" {
			what = "the chart of version " + version + ", whose digest is not known,"
		}
		found = append(found, Refusal{What: what, Why: "is none of those that this NodeSync names", Field: fieldDigests, Entry: "sha256:…"})
	}
	return found
}

// names says whether a digest, of which the beginning may be all that is known, is allowed by name.
func (a Allowance) names(digest string) bool {
	return slices.ContainsFunc(a.Digests, func(allowed string) bool { return digest != "" && strings.HasPrefix(allowed, digest) })
}

// InGit says that charts come from the checkout itself.
func InGit(repository string) bool { return !strings.Contains(bare(repository), "://") }

func (a Allowance) repositories() []string {
	if len(a.Repositories) == 0 {
		return []string{PublicRepository}
	}
	return a.Repositories
}

func (a Allowance) allowsRepository(repository string) bool {
	return slices.ContainsFunc(a.repositories(), func(allowed string) bool { return bare(allowed) == bare(repository) })
}

// bare is a repository in one spelling. A path begins with ./ or ../, as in
// plumbline.yaml.
func bare(repository string) string {
	if repository == "" {
		return PublicRepository
	}
	if strings.Contains(repository, "://") {
		return strings.TrimRight(repository, "/")
	}
	clean := path.Clean(repository)
	if clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return clean
	}
	return "./" + clean
}

// allowsVersion refuses a version, and a range, that cannot be read: the schema of
// the NodeSync cannot tell.
func (a Allowance) allowsVersion(version string) bool {
	if a.Versions == "" {
		return true
	}
	allowed, err := semver.NewConstraint(a.Versions)
	if err != nil {
		return false
	}
	is, err := semver.StrictNewVersion(version)
	return err == nil && allowed.Check(is)
}

// allows says whether a value of this path may be set: it, or one that it is below.
func (a Allowance) allows(at string) bool {
	path := segments(at)
	return slices.ContainsFunc(a.Values, func(entry string) bool {
		allowed := segments(entry)
		return entry == Everything || len(allowed) <= len(path) && slices.Equal(allowed, path[:len(allowed)])
	})
}
