package pulls

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// commentTimeout bounds the requests for one comment.
const commentTimeout = 30 * time.Second

// marker begins a comment of a NodeSync, and no reader sees it. It is made of the NodeSync's UID, so
// that nobody can write one before ours: of several the oldest is ours.
func marker(p *pull) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", p.of.sync.UID, p.of.host.URL, p.Number))
	return "<!-- plumbline:" + hex.EncodeToString(sum[:16]) + ":"
}

// marked is the whole comment: its marker says which text it has, as hosts do not keep a text to
// the letter.
func marked(p *pull) string {
	sum := sha256.Sum256([]byte(p.text))
	return marker(p) + hex.EncodeToString(sum[:8]) + " -->\n" + p.text
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
		p.id, p.tries, p.basis = 0, p.tries+1, ""
		p.notBefore = f.Now().Add(min(again, leastInterval<<min(p.tries, 6)))
		p.of.uncommented = queue.Stable(err)
		return
	}
	p.written, p.of.uncommented = whole, ""
}

func (f *Follower) write(ctx context.Context, p *pull, whole string) error {
	reviewer, err := f.reviewer(ctx, p.of)
	if err != nil {
		return err
	}
	if p.id == 0 {
		there, err := reviewer.Comments(ctx, p.Number)
		if err != nil {
			return err
		}
		for _, one := range there {
			if !strings.HasPrefix(one.Body, marker(p)) {
				continue
			}
			p.id = one.ID
			if first, _, _ := strings.Cut(whole, "\n"); strings.HasPrefix(one.Body, first) {
				return nil
			}
			break
		}
	}
	if err := f.StillLeader(ctx); err != nil {
		return err
	}
	p.id, err = reviewer.Comment(ctx, p.Number, p.id, whole)
	return err
}
