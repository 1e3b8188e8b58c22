package charts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// failure is why a chart does not render. It has no word that a template has made:
// fail, required and tpl can say anything, values of Secrets included.
type failure struct {
	Kind failureKind
	// File is the template, and Line that in it; empty and 0 where they are unknown.
	File string
	Line int
	// Words are plumbline's own.
	Words string
}

type failureKind string

const (
	failedTemplate     failureKind = "template"
	failedLookup       failureKind = "lookup"
	failedHook         failureKind = "hook"
	failedYAML         failureKind = "yaml"
	failedValues       failureKind = "values"
	failedVersion      failureKind = "version"
	failedDependencies failureKind = "dependencies"
	failedName         failureKind = "name"
	failedSchema       failureKind = "schema"
)

// notShown says why the template's message is missing, and how to see it.
const notShown = "its message is not shown, since it may contain a secret: run helm template with these values to see it"

// error is the failure of a chart.
func (f *failure) error(c *chart.Metadata) error {
	at := f.File
	if at == "" {
		at = "a template"
	}
	if f.Line > 0 {
		at += fmt.Sprintf(", line %d", f.Line)
	}
	var text string
	switch f.Kind {
	case failedLookup:
		return &LookupError{Chart: c.Name, Version: c.Version, File: f.File, Line: f.Line}
	case failedHook:
		return &HookError{Chart: c.Name, Version: c.Version, File: f.File}
	case failedYAML:
		text = at + " renders to something that is not YAML"
	case failedValues, failedVersion:
		text = f.Words
	case failedDependencies:
		text = "the dependencies in its Chart.yaml cannot be read"
	case failedName:
		text = "a chart within it has a name with other characters than letters, digits and . _ + @ -"
	case failedSchema:
		text = "its values.schema.json, or that of a chart within it, is no schema by itself: no other file and no URL is read for it, so that a $ref has to stay within it"
	case failedTemplate:
		text = at + " fails: " + notShown
	default:
		text = at + " fails"
	}
	return &RenderError{Chart: c.Name, Version: c.Version, Err: fmt.Errorf("%s", text)}
}

// LookupError says that a chart's template reads objects of the cluster.
type LookupError struct {
	Chart, Version string
	// File is the template; Line is 0 where it is unknown.
	File string
	Line int
}

// Error names the template.
func (e *LookupError) Error() string {
	at := "a template"
	if e.File != "" {
		at = e.File
	}
	if e.Line > 0 {
		at += fmt.Sprintf(", line %d,", e.Line)
	}
	return fmt.Sprintf("refused: chart %s %s: %s calls lookup, which reads objects of the cluster with plumbline's permissions: charts are rendered without the cluster; set what it looks up as a value",
		e.Chart, e.Version, at)
}

// HookError says that a chart has a hook, which none of Karpenter's has.
type HookError struct {
	Chart, Version string
	// File is the template.
	File string
}

// Error names the template.
func (e *HookError) Error() string {
	return fmt.Sprintf("refused: chart %s %s: %s is a Helm hook, and Karpenter's charts have none: nothing of it is installed; use the chart as released",
		e.Chart, e.Version, e.File)
}

var templatePlace = regexp.MustCompile(`([^\s():"<>]+):(\d+)`)

// longestSearched bounds how much of an error is searched for a place: the first
// template that is named is the outermost one.
const longestSearched = 4 << 10

// placeOf is the template and the line that an error begins with. Only names of the
// chart's own templates count: a template can put anything into its error.
func placeOf(err error, known map[string]bool) (file string, line int) {
	text := err.Error()
	text = text[:min(len(text), longestSearched)]
	for _, found := range templatePlace.FindAllStringSubmatch(text, -1) {
		if known[found[1]] {
			line, _ := strconv.Atoi(found[2])
			return found[1], line
		}
	}
	for name := range known {
		if strings.HasPrefix(text, "YAML parse error on "+name+":") {
			return name, 0
		}
	}
	return "", 0
}

var schemaPath = regexp.MustCompile(`at '(/[^']*)'`)

// schemaProblem names the values that do not fit a chart's schema, without what they hold.
func schemaProblem(err error) string {
	const most = 5
	var names []string
	seen := map[string]bool{}
	for _, found := range schemaPath.FindAllStringSubmatch(err.Error(), -1) {
		if name := "values" + strings.ReplaceAll(found[1], "/", "."); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "the values do not fit the chart's values.schema.json"
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return strings.Join(names, ", ") + more + " do not fit the chart's values.schema.json"
}
