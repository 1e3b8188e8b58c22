package pulls

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// commentTimeout bounds the requests for one comment.
const commentTimeout = 30 * time.Second

// marker begins a comment of a NodeSync, and no reader sees it: it is a comment of HTML, or where
// those are shown the definition of a link that nothing refers to. Of several that the token's user
// wrote, for other NodeSyncs too, it says which is ours.
func marker(p *pull) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", p.of.sync.UID, p.of.host.URL, p.Number))
	begins := "[plumbline:"
	if report.MarkupOf(p.of.host.Provider).HTML {
		begins = "<!-- plumbline:"
	}
	return begins + hex.EncodeToString(sum[:16]) + ":"
}

// marked is the whole comment: its marker says which text it has, as hosts do not keep a text to
// the letter.
func marked(p *pull) string {
	sum := sha256.Sum256([]byte(p.text))
	ends := "]: #\n\n"
	if report.MarkupOf(p.of.host.Provider).HTML {
		ends = " -->\n"
	}
	return marker(p) + hex.EncodeToString(sum[:8]) + ends + p.text
}

// comment writes the comment on a pull request, if it has another text than the one there.
func (f *Follower) comment(ctx context.Context, p *pull) {
	whole := marked(p)
	if p.text == "" || p.written == whole {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	if err := f.write(ctx, p, whole); err != nil {
		ctrl.LoggerFrom(ctx).Info("a comment is written later", "nodesync", p.of.sync.Name, "pull", p.Number, "why", err.Error())
		// The plan is renewed with it: what it says may be old by then.
		p.comment, p.tries, p.basis = report.Comment{}, p.tries+1, ""
		p.notBefore = f.Now().Add(min(again, leastInterval<<min(p.tries, 6)))
		p.of.uncommented = report.StableMessage(err)
		return
	}
	p.written, p.of.uncommented = whole, ""
}

func (f *Follower) write(ctx context.Context, p *pull, whole string) error {
	reviewer, err := f.reviewer(ctx, p.of)
	if err != nil {
		return err
	}
	if p.comment.ID == 0 {
		there, err := reviewer.OwnComments(ctx, p.Number)
		if err != nil {
			return err
		}
		for _, one := range there {
			if !strings.HasPrefix(one.Body, marker(p)) {
				continue
			}
			p.comment = one
			if first, _, _ := strings.Cut(whole, "\n"); strings.HasPrefix(one.Body, first) {
				return nil
			}
			break
		}
	}
	if err := f.StillLeader(ctx); err != nil {
		return err
	}
	p.comment, err = reviewer.Comment(ctx, p.Number, p.comment, whole)
	return err
}
