package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// adoptReport is what `plumbline adopt` prints.
type adoptReport struct {
	survey.Found `json:",inline"`
	// Runs is the version of the controller that is there; Git is that which
	// plumbline.yaml says, or will.
	Runs string `json:"runs,omitempty"`
	Git  string `json:"version"`
	// ValuesNotInGit are values of the release that plumbline.yaml has not, or has
	// otherwise, by their paths.
	ValuesNotInGit []string `json:"valuesNotInGit,omitempty"`
	// Set is what plumbline.yaml has to say; nil where it says so.
	Set     *adoption `json:"set,omitempty"`
	Refused string    `json:"refused,omitempty"`
	Written bool      `json:"written"`
}

// adoption are the fields of plumbline.yaml that it takes.
type adoption struct {
	Adopt     bool   `json:"adopt"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version,omitempty"`
}

// exit says by the exit code whether there is something to do.
func (r *adoptReport) exit() error {
	switch {
	case r.Refused != "":
		return &exitError{code: exitFailed}
	case r.Set != nil && !r.Written:
		return &exitError{code: exitChanges}
	}
	return nil
}

// print shows what is there to people, and what is left to do.
func (r *adoptReport) print(out io.Writer) error {
	if r.Empty() {
		fmt.Fprintln(out, "no other tool has installed anything of Karpenter here")
		return nil
	}
	printFound(out, r.Found)
	if len(r.ValuesNotInGit) > 0 {
		fmt.Fprintf(out, "\nValues of the release that plumbline.yaml has not, or has otherwise; they go with its next revision:\n  %s\nhelm get values %s shows them.\n",
			strings.Join(r.ValuesNotInGit, "\n  "), charts.ControllerChart)
	}
	switch {
	case r.Refused != "":
		fmt.Fprintf(out, "\nNot adopted: %s\n", r.Refused)
	case r.Written:
		fmt.Fprintf(out, "\nplumbline.yaml says so now:\n\n%s\nCommit it.\n", r.Set)
	case r.Set != nil:
		fmt.Fprintf(out, "\nWrite into plumbline.yaml, or have --write do it, and commit it:\n\n%s", r.Set)
	default:
		fmt.Fprintln(out, "\nplumbline.yaml asks for it already.")
	}
	if r.Refused == "" && r.Runs != "" && r.Runs != r.Git {
		fmt.Fprintf(out, "\nIt is a change of Karpenter from %s to %s, with every gate of one.\n", r.Runs, r.Git)
	}
	return nil
}

// asked says that plumbline.yaml asks for what was found, and nothing stands in the
// way.
func (r *adoptReport) asked() bool { return r.Refused == "" && r.Set == nil }

// printPlanned is what a plan says of it.
func (r *adoptReport) printPlanned(out io.Writer) {
	printFound(out, r.Found)
	switch {
	case r.Refused != "":
		fmt.Fprintf(out, "Refused: %s\n", r.Refused)
	case r.Set != nil:
		fmt.Fprintf(out, "Refused, until plumbline.yaml says\n%s", r.Set)
	default:
		fmt.Fprintf(out, "Adopted at version %s: nothing is deleted or recreated.\n", r.Git)
	}
}

// printFound lists what is there, with whose it is.
func printFound(out io.Writer, found survey.Found) {
	t := newFittedTable(out, "WHAT", "VERSION", "WHOSE")
	for _, release := range found.Releases {
		whose := "not readable"
		if release.Revision > 0 {
			whose = fmt.Sprintf("revision %d", release.Revision)
		}
		t.AppendRow([]any{"helm release " + release.String(), orNothing(release.Version), whose})
	}
	for _, object := range found.Controllers {
		t.AppendRow([]any{object, orNothing(object.Version), object.Owner})
	}
	for _, object := range found.CRDs {
		t.AppendRow([]any{object, orNothing(object.Version), object.Owner})
	}
	t.Render()
}

// String is the lines of plumbline.yaml.
func (a *adoption) String() string {
	text := "adopt: true\n"
	if a.Namespace != "" {
		text += "namespace: " + a.Namespace + "\n"
	}
	if a.Version != "" {
		text += "version: " + a.Version + "\n"
	}
	return text
}
