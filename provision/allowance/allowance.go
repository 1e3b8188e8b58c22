package allowance

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// PublicRepository is where Karpenter is released, and the default source of the charts.
const PublicRepository = "oci://public.ecr.aws/karpenter"

// Everything allows all Values if it is one of them.
const Everything = "*"

// Allowance is what a NodeSync allows. The zero value is the default.
type Allowance struct {
	// Repositories that charts may come from, as written in plumbline.yaml. If empty, PublicRepository.
	Repositories []string
	// Versions is a range of semantic versions. If empty, any.
	Versions string
	// Digests that the charts may have, as sha256:<hex>. If empty, any.
	Digests []string
	// Values, by path, that may be set in addition to those of the table; each allows everything below it.
	Values []string
	// ControllerRoles are ARNs of the IAM roles that the service account may assume.
	ControllerRoles []string
	// CABundle is the cluster's own CA bundle, PEM in base64, which the controller uses if no value sets another; empty
	// if unknown.
	CABundle string
	// PodSecurity is the level that the controller's pods must meet. If empty, Restricted.
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

// Request is what a commit requests.
type Request struct {
	// Repository as in plumbline.yaml; empty for the public one.
	Repository string
	// Version of the charts; empty for whatever is installed.
	Version string
	// ControllerRole is the ARN of an IAM role; empty for none.
	ControllerRole string
	// Secrets reports whether values come from Secrets.
	Secrets bool
}

// Refusal is one thing that must not come from Git.
type Refusal struct {
	// What is refused: "values.controller.image.tag".
	What string
	// Why it matters, as the end of a sentence.
	Why string
	// Field of the NodeSync, and its Entry, that would allow this. Empty if nothing allows it.
	Field, Entry string
	// Unknown reports whether it is a value that no known chart has.
	Unknown bool
	// Rendered reports whether it is about the rendered chart, so that it may contain text that a template made from
	// values.
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

// String describes what is refused, why, and the line that would allow it.
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

// RefusedError reports that a commit requests what the NodeSync does not allow.
type RefusedError struct {
	Refusals []Refusal
}

// maxRefusals limits the Refusals in a message.
const maxRefusals = 5

// Error names each of them, with the line of the NodeSync that would allow it.
func (e *RefusedError) Error() string {
	var words []string
	for _, refusal := range e.Refusals {
		words = append(words, refusal.String())
	}
	return "refused, this may not come from Git: " + shortlist.Items(words, maxRefusals, "; ")
}

// OnlyGit reports whether all refusals are about text in Git, and not about rendered charts.
func (e *RefusedError) OnlyGit() bool {
	return !slices.ContainsFunc(e.Refusals, func(r Refusal) bool { return r.Rendered })
}

// Refuse returns an error for Refusals; nil if there are none.
func Refuse(refusals []Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	return &RefusedError{Refusals: refusals}
}

// Everything reports whether any value may be set.
func (a Allowance) Everything() bool { return slices.Contains(a.Values, Everything) }

// Check returns what is refused of a Request. Nothing was fetched for it yet.
func (a Allowance) Check(r Request) []Refusal {
	var found []Refusal
	if !a.allowsRepository(r.Repository) {
		found = append(found, Refusal{
			What:  "repository " + bare(r.Repository),
			Why:   "is not one that this NodeSync takes charts from, which are " + strings.Join(a.repositories(), ", "),
			Field: fieldRepositories, Entry: bare(r.Repository),
		})
	}
	if r.Version != "" {
		found = append(found, a.checkVersion(r.Version)...)
	}
	if r.ControllerRole != "" && !slices.Contains(a.ControllerRoles, r.ControllerRole) {
		found = append(found, Refusal{
			What: "cluster.controllerRole " + r.ControllerRole, Why: "changes the identity that Karpenter has in AWS",
			Field: fieldControllerRoles, Entry: r.ControllerRole,
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

// CheckDigests returns the fetched charts that are not allowed. Charts that a commit can change must not be rendered
// with values from a Secret: their output, or whether they fail, could reveal it in any encoding, bit by bit.
func (a Allowance) CheckDigests(r Request, digests ...string) []Refusal {
	var found []Refusal
	for _, digest := range digests {
		switch {
		case len(a.Digests) > 0 && !slices.Contains(a.Digests, digest):
			found = append(found,
				Refusal{What: "a chart with digest " + digest, Why: "is none of those that this NodeSync names", Field: fieldDigests, Entry: digest})
		case len(a.Digests) == 0 && r.Secrets && InGit(r.Repository):
			found = append(found, Refusal{
				What:  "valuesFrom a Secret with charts in Git",
				Why:   "would let everyone who can change the chart with digest " + digest + " read the Secret",
				Field: fieldDigests, Entry: digest,
			})
		}
	}
	return found
}

// CheckInstalled returns why a chart that was installed before must not be installed again: its version or its digest
// is not allowed now. digest may be only the first part of the digest, or empty.
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

// names reports whether a digest, or the first part of one, is explicitly allowed.
func (a Allowance) names(digest string) bool {
	return slices.ContainsFunc(a.Digests, func(allowed string) bool { return digest != "" && strings.HasPrefix(allowed, digest) })
}

// InGit reports whether charts come from the checkout itself.
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

// bare returns a repository in one spelling. A path starts with ./ or ../, as in plumbline.yaml.
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

// allowsVersion refuses a version or a range that cannot be parsed, because the schema of the NodeSync cannot check
// them.
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

// allows reports whether the value at this path, or one that contains it, is allowed.
func (a Allowance) allows(at string) bool {
	path := segments(at)
	return slices.ContainsFunc(a.Values, func(entry string) bool {
		allowed := segments(entry)
		return entry == Everything || len(allowed) <= len(path) && slices.Equal(allowed, path[:len(allowed)])
	})
}

// rule is what a part of Karpenter's Deployment may be. The daemon applies it to a rendered chart (shaped), and the
// admission policy of its ServiceAccount is generated from it (expression), so that both decide the same. The zero
// value allows anything.
type rule struct {
	// fields are the fields that an object may have. Others are refused.
	fields map[string]rule
	// each is the rule of every item of a list, and first that of the first one.
	each, first *rule
	// oneOf are the allowed values, and match is a regular expression for a whole string.
	oneOf []string
	match string
	// empty is true if a list must have no items.
	empty bool
	// required is true if it must be set.
	required bool
	// opens is the value of the chart with which a NodeSync (spec.charts.allow.values) allows anything here.
	opens string
	// level is true if the Pod Security Standards decide about it too, so that a NodeSync with a lower level allows it.
	level bool
}

// shaped refuses what violates a rule.
func (c *check) shaped(r rule, at string, value any) {
	if r.opens != "" && c.allowance.allows(r.opens) || r.level && levels[c.allowance.PodSecurity] != levels[Restricted] {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		c.fields(r, at, value)
	case []any:
		for i, item := range value {
			switch {
			case r.empty:
				c.breaks(r, at)
			case r.first != nil && i == 0:
				c.shaped(*r.first, at+"[]", item)
			case r.each != nil:
				c.shaped(*r.each, at+"[]", item)
			}
		}
	default:
		if !r.matches(value) {
			c.breaks(r, at)
		}
	}
}

// matches reports whether a string, a number or a bool matches the rule.
func (r rule) matches(value any) bool {
	text := fmt.Sprint(value)
	switch {
	case r.empty:
		return false
	case len(r.oneOf) > 0:
		return slices.Contains(r.oneOf, text)
	case r.match != "":
		return regexp.MustCompile(`^(?:` + r.match + `)$`).MatchString(text)
	}
	return true
}

// fields applies the rules of an object's fields.
func (c *check) fields(r rule, at string, object map[string]any) {
	if r.fields == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, known := r.fields[name]
		switch {
		case object[name] == nil: // the API server drops it
		case known:
			c.shaped(field, at+"."+name, object[name])
		case r.opens == "" || !c.allowance.allows(join(r.opens, name)):
			c.breaks(r, at+"."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if r.fields[name].required && object[name] == nil {
			c.breaks(r.fields[name], at+"."+name)
		}
	}
}

// breaks refuses a field, and names what would allow it.
func (c *check) breaks(r rule, at string) {
	refusal := Refusal{What: c.name(), Why: "has " + at + " as no chart of Karpenter's has it"}
	switch {
	case r.level:
		refusal.Field, refusal.Entry = fieldPodSecurity, string(Privileged)
	case r.opens != "":
		refusal.Field, refusal.Entry = fieldValues, r.opens
	}
	c.found = append(c.found, refusal)
}

// expression returns the rule in CEL for the expression x. depth numbers the variables of its loops.
func (r rule) expression(x string, depth int) string {
	var parts []string
	switch {
	case r.empty:
		parts = append(parts, x+".size() == 0")
	case len(r.oneOf) > 0:
		parts = append(parts, fmt.Sprintf("string(%s) in %s", x, celList(r.oneOf)))
	case r.match != "":
		parts = append(parts, fmt.Sprintf("string(%s).matches(r'^(?:%s)$')", x, r.match))
	case r.each != nil:
		item := fmt.Sprintf("i%d", depth)
		if each := r.each.expression(item, depth+1); each != "true" {
			parts = append(parts, fmt.Sprintf("%s.all(%s, %s)", x, item, each))
		}
	case r.first != nil:
		parts = append(parts, r.first.expression(x+"[0]", depth))
	case r.fields != nil:
		parts = append(parts, r.fieldsExpression(x, depth)...)
	}
	all := strings.Join(parts, " && ")
	switch {
	case all == "":
		return "true"
	case r.opens != "":
		return "(" + opened(r.opens) + " || (" + all + "))"
	}
	return all
}

func (r rule) fieldsExpression(x string, depth int) []string {
	names := slices.Sorted(maps.Keys(r.fields))
	name := fmt.Sprintf("f%d", depth)
	known := name + " in " + celList(names)
	if r.opens != "" {
		known += fmt.Sprintf(" || ('%[1]s.' + %[2]s) in variables.allowed || ('%[1]s[' + %[2]s + ']') in variables.allowed", r.opens, name)
	}
	parts := []string{fmt.Sprintf("%s.all(%s, %s)", x, name, known)}
	for _, field := range names {
		of := r.fields[field]
		switch holds := of.expression(x+"."+field, depth+1); {
		case of.required && holds == "true":
			parts = append(parts, fmt.Sprintf("has(%s.%s)", x, field))
		case of.required:
			parts = append(parts, fmt.Sprintf("has(%s.%s) && %s", x, field, holds))
		case holds != "true":
			parts = append(parts, fmt.Sprintf("(!has(%s.%s) || (%s))", x, field, holds))
		}
	}
	return parts
}

// opened returns a CEL expression that is true if the variable allowed contains a value of the chart, or a parent of
// it.
func opened(path string) string {
	above := []string{Everything}
	all := segments(path)
	for i := range all {
		above = append(above, strings.Join(all[:i+1], "."))
	}
	return celList(above) + ".exists(p, p in variables.allowed)"
}

// celList returns a list of strings in CEL.
func celList(list []string) string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, "'"+one+"'")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// join appends a key to a path. The keys of labels and annotations, which contain dots and slashes, are written in
// brackets.
func join(at, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]") || keyed[at]:
		return at + "[" + unbracketed.Replace(key) + "]"
	case at == "":
		return key
	}
	return at + "." + key
}

// unbracketed escapes a key, so that it cannot close its own brackets.
var unbracketed = strings.NewReplacer("[", `\[`, "]", `\]`)

// variableAt returns the path of a variable of the controller.
func variableAt(name string) string { return environment + "[" + unbracketed.Replace(name) + "]" }

// keyed are the maps of labels and annotations.
var keyed = map[string]bool{
	"service.annotations": true, "serviceAccount.annotations": true, "podAnnotations": true, "podLabels": true,
	"additionalLabels": true, "additionalAnnotations": true,
}

// segments splits a path, which may be written with dots and with brackets: podLabels.token is podLabels[token], and
// below a map of labels the rest is one key.
func segments(path string) []string {
	var all []string
	for rest := path; rest != ""; {
		var one string
		after, bracket := strings.CutPrefix(rest, "[")
		rest = strings.TrimPrefix(rest, ".")
		parent := strings.Join(all, ".")
		switch {
		case bracket:
			one, rest, _ = strings.Cut(after, "]")
		case keyed[parent] || parent == environment:
			one, rest = rest, ""
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			one, rest = rest[:end], rest[end:]
		}
		all = append(all, one)
	}
	return all
}
