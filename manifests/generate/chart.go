package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// chart is plumbline's own Helm chart: its templates are the base's files with the edits of chartFiles, and its
// values.yaml has the base's settings as defaults.
type chart struct {
	// files are texts by path in the chart.
	files map[string]string
	// defaults are the base's settings by value: `resources: …`.
	defaults map[string]string
}

// chartFile describes the template for one file of the base.
type chartFile struct {
	from string
	// when is the condition under which the chart contains it; if empty, always.
	when  string
	edits []edit
	// braces reports whether it contains braces for another program, which Helm must print unchanged.
	braces bool
}

// printed makes Helm print braces.
var printed = strings.NewReplacer("{{", `{{ "{{" }}`, "}}", `{{ "}}" }}`)

// edit turns a file's text into a template. Comments stay, with the reasons in them.
type edit func(c *chart, text string) (string, error)

// renderChart returns the chart's generated files for the base in a folder.
func renderChart(base string) (*chart, error) {
	c := &chart{files: map[string]string{}, defaults: map[string]string{}}
	for _, f := range chartFiles {
		text, err := os.ReadFile(filepath.Join(base, filepath.FromSlash(f.from)))
		if err != nil {
			return nil, err
		}
		if c.files["templates/"+f.from], err = c.template(f, string(text)); err != nil {
			return nil, fmt.Errorf("make a template of %s: %w", f.from, err)
		}
	}
	dashboard, err := os.ReadFile(filepath.Join(base, "monitoring", "dashboard.json"))
	if err != nil {
		return nil, err
	}
	c.files["dashboard.json"] = string(dashboard)
	var values bytes.Buffer
	parsed, err := template.New("values").Option("missingkey=error").Parse(valuesTemplate)
	if err == nil {
		err = parsed.Execute(&values, c.defaults)
	}
	if err != nil {
		return nil, fmt.Errorf("write the chart's values: %w", err)
	}
	c.files["values.yaml"] = values.String()
	return c, nil
}

func (c *chart) template(f chartFile, text string) (string, error) {
	if f.braces {
		text = printed.Replace(text)
	} else if strings.Contains(text, "{{") {
		return "", fmt.Errorf("it has {{, which Helm would evaluate")
	}
	edits := f.edits
	if f.when != "" {
		edits = append(edits, fromHere("", f.when))
	}
	// The namespace of helm --namespace, in bindings, policies and wherever else the base names its own.
	text = strings.ReplaceAll(text, "plumbline-system", "{{ $.Release.Namespace }}")
	for _, edit := range edits {
		var err error
		if text, err = edit(c, text); err != nil {
			return "", err
		}
	}
	// A template comment, so that a file without objects is empty.
	return "{{- /* Generated from " + f.from + " of the kustomize base: make generate. */ -}}\n" + text, nil
}

// write writes the files into a folder.
func (c *chart) write(dir string) error {
	for name, text := range c.files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaced replaces a text that must occur a number of times.
func replaced(times int, old, by string) edit {
	return func(_ *chart, text string) (string, error) {
		if got := strings.Count(text, old); got != times {
			return "", fmt.Errorf("%q is there %d times, want %d", old, got, times)
		}
		return strings.ReplaceAll(text, old, by), nil
	}
}

// after adds a text after another one.
func after(old, added string) edit { return replaced(1, old, old+added) }

// atEnd adds a text at the end of the file.
func atEnd(added string) edit {
	return func(_ *chart, text string) (string, error) { return text + added, nil }
}

// only puts lines under a condition.
func only(lines, condition string) edit {
	return replaced(1, lines, "{{- "+condition+" }}\n"+lines+"{{- end }}\n")
}

// fromHere puts everything from a text to the end of the file under a condition.
func fromHere(start, condition string) edit {
	return func(_ *chart, text string) (string, error) {
		before, rest, found := strings.Cut(text, start)
		if !found || (start != "" && strings.Contains(rest, start)) {
			return "", fmt.Errorf("%q is not there once", start)
		}
		return before + "{{- " + condition + " }}\n" + start + rest + "{{- end }}\n", nil
	}
}

// moved moves a field to the chart's values, under its own name.
func moved(field string) edit {
	return func(c *chart, text string) (string, error) {
		found := regexp.MustCompile(`(?m)^( *)`+field+`:(.*)\n`).FindAllStringSubmatchIndex(text, -1)
		if len(found) != 1 {
			return "", fmt.Errorf("the field %s is there %d times, want 1", field, len(found))
		}
		at := found[0]
		indent, scalar, end := text[at[2]:at[3]], text[at[4]:at[5]] != "", at[1]
		for strings.HasPrefix(text[end:], indent+" ") {
			end += strings.Index(text[end:], "\n") + 1
		}
		block := strings.TrimSuffix(text[at[0]:end], "\n")
		c.defaults[field] = strings.ReplaceAll(strings.TrimPrefix(block, indent), "\n"+indent, "\n")
		by := fmt.Sprintf("%[1]s%[2]s: {{ .Values.%[2]s }}\n", indent, field)
		if !scalar {
			by = fmt.Sprintf("%[1]s{{- with .Values.%[2]s }}\n%[1]s%[2]s:\n%[1]s  {{- toYaml . | nindent %[3]d }}\n%[1]s{{- end }}\n",
				indent, field, len(indent)+2)
		}
		return text[:at[0]] + by + text[end:], nil
	}
}
