package propose

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostListed is how many files and commits a pull request names.
	mostListed = 50
	// maxCode is how much is shown of one text.
	maxCode = 500
	// maxBody is how long the text of a pull request is, in bytes: GitHub takes 65,536 characters.
	maxBody = 60_000
)

// title of the pull request, and of its commit.
func (p proposal) title() string {
	return fmt.Sprintf("Revert %.8s: its nodes do not join the cluster %s", render.CommitOf(p.revert.Bad), redact.Visible(p.Cluster))
}

// message of the commit. It says nothing that another try would say in other words: by it a commit
// that is pushed already is known.
func (p proposal) message() string {
	return fmt.Sprintf("%s\n\nThis takes the definitions of NodeSync %s back to %s.\n", p.title(), p.Sync.Name, p.revert.From)
}

// body of the pull request, in Markdown.
func (p proposal) body(of source.Reverted) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plumbline has stopped the rollout of %s in the cluster %s, in %s: %s.\n\n", code(render.ShortRevision(p.revert.Bad)), code(p.Cluster), pools(p.revert.Pools), code(p.revert.Why))
	fmt.Fprintf(&b, "This takes the files of NodeSync %s back to what they were in %s, the revision that was applied before. When it is merged, the brake goes and nodes are made by the definitions of before. "+
		"To go on otherwise, close it, and push a correction or run `plumbline resume-rollout %s`.\n\n", code(p.Sync.Name), code(render.ShortRevision(p.revert.From)), p.Sync.Name)
	list(&b, "Files:", of.Files, code)
	list(&b, "**Not reverted**, as this NodeSync is not made of these files, which were changed as well:", of.Left, code)
	list(&b, "Commits whose changes of these files are taken back, the newest first:", of.Undone, func(c source.Undone) string {
		return fmt.Sprintf("%.8s %s", c.Commit, code(c.Subject))
	})
	if of.More {
		b.WriteString("There may be others, as the history in between is not known as a whole.\n\n")
	}
	list(&b, "**Changed again since then.** What newer commits have changed in these files is taken back with it:", of.Newer, code)
	unsigned := p.unsigned()
	text := b.String()
	if most := maxBody - len(unsigned); len(text) > most {
		text = text[:strings.LastIndexByte(text[:most], '\n')+1] + "\nThe rest of the lists is too long for a pull request: its commit has all of it.\n\n"
	}
	return text + unsigned
}

// unsigned says what a commit without a signature needs to be applied.
func (p proposal) unsigned() string {
	verify := p.Sync.Spec.Source.Verification()
	switch {
	case verify == nil:
		return ""
	case verify.Mode == v1alpha1.VerifyRange:
		return "**The commit is not signed**, and this NodeSync wants each commit signed that is new: make the same change with a commit that a trusted key has signed, or squash this into one.\n"
	}
	return "**The commit is not signed**, and this NodeSync wants a signature: merge it with a commit that a trusted key has signed.\n"
}

// list writes some of a list; nothing where it is empty.
func list[T any](b *strings.Builder, title string, of []T, write func(T) string) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n\n", title)
	for i, one := range of {
		if i == mostListed {
			fmt.Fprintf(b, "- and %d more\n", len(of)-i)
			break
		}
		fmt.Fprintf(b, "- %s\n", write(one))
	}
	b.WriteString("\n")
}

func pools(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, code("NodePool/"+name))
	}
	return strings.Join(all, ", ")
}

// code is text of others, cut where it is long.
func code(words string) string {
	words = redact.Visible(strings.Join(strings.Fields(words), " "))
	if len(words) > maxCode {
		words = strings.ToValidUTF8(words[:maxCode], "") + "…"
	}
	return report.Code(words)
}
