package pulls

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// commentTimeout limits the requests for one comment.
const commentTimeout = 30 * time.Second

// plainMark and htmlMark are how markers of comments begin, on hosts without and with HTML comments.
const plainMark, htmlMark = "[plumbline:", "<!-- plumbline:"

// marker is the start of a NodeSync's comment, and is invisible: an HTML comment, or, on hosts that show those, the
// definition of an unused link. It tells our comment from others of the token's user, such as those for other
// NodeSyncs.
func marker(p *pull) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", p.of.sync.UID, p.of.host.URL, p.Number))
	begins := plainMark
	if report.MarkupOf(p.of.host.Provider).HTML {
		begins = htmlMark
	}
	return begins + hex.EncodeToString(sum[:16]) + ":"
}

// marked is the whole comment.
func marked(p *pull) string {
	ends := "]: #\n\n"
	if report.MarkupOf(p.of.host.Provider).HTML {
		ends = " -->\n"
	}
	return marker(p) + ends + p.text
}

// oftenRestored is how often in a row a text is restored until this is reported, and done every half an hour only.
const oftenRestored = 2

// comment writes the comment on a pull request, if another text stands there: that of an earlier plan, or what a user has
// made of it.
func (f *Follower) comment(ctx context.Context, p *pull) {
	whole, now := marked(p), f.Now()
	if p.text == "" || p.written == whole && now.Before(p.writtenAt.Add(renewAfter<<min(p.restored, oftenRestored)-renewAfter)) {
		p.commentAt = time.Time{}
		return
	}
	if p.commentAt = p.of.commentAt; now.Before(p.commentAt) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	if err := f.write(ctx, p, whole); err != nil {
		ctrl.LoggerFrom(ctx).Info("a comment is written later", "nodesync", p.of.sync.Name, "pull", p.Number, "why", err.Error())
		p.refused++
		p.commentAt = f.Now().Add(min(renewAfter, minInterval<<min(p.refused, 6)))
		if limit := report.RateLimitOf(err); limit > 0 {
			p.of.commentAt = f.Now().Add(limit)
			p.commentAt = later(p.commentAt, p.of.commentAt)
		}
		p.uncommented = report.StableMessage(err)
		return
	}
	p.uncommented, p.refused, p.commentAt = "", 0, time.Time{}
	if p.restored >= oftenRestored {
		p.uncommented = fmt.Sprintf("the comment on pull request %d was changed or deleted several times, by a user or by the host: "+
			"trust the commit status, not the comment", p.Number)
	}
}

func (f *Follower) write(ctx context.Context, p *pull, whole string) error {
	reviewer, err := f.reviewer(ctx, p.of)
	if err != nil {
		return err
	}
	there, err := find(ctx, reviewer, p)
	if err != nil {
		return err
	}
	kept := p.of.ours[p.Number].Body // what the host has made of the text that was written last
	if there.ID != 0 && (alike(there.Body, whole) || p.written == whole && there.Body == kept) {
		p.of.ours[p.Number] = report.Comment{ID: there.ID, Thread: there.Thread, Body: there.Body}
		p.written, p.restored = whole, 0
		return nil
	}
	if err := f.StillLeader(ctx); err != nil {
		return err
	}
	made, err := reviewer.Comment(ctx, p.Number, there, whole)
	if err != nil {
		return err
	}
	if p.restored++; p.written != whole {
		p.restored = 0
	}
	p.of.ours[p.Number], p.written, p.writtenAt = made, whole, f.Now()
	return nil
}

// find is our comment as the host has it now, by what is known of it, or else by its marker; it has no ID if there is none.
func find(ctx context.Context, reviewer report.Reviewer, p *pull) (report.Comment, error) {
	if known := p.of.ours[p.Number]; known.ID != 0 {
		if there, err := reviewer.OwnComment(ctx, p.Number, known); err != nil || there.ID != 0 && !ofAnother(p, there.Body) {
			return there, err
		}
	}
	all, err := reviewer.OwnComments(ctx, p.Number)
	if err != nil {
		return report.Comment{}, err
	}
	if i := slices.IndexFunc(all, func(one report.Comment) bool { return strings.HasPrefix(one.Body, marker(p)) }); i >= 0 {
		return all[i], nil
	}
	return report.Comment{}, nil
}

// ofAnother reports whether a comment has the marker of another pull request or NodeSync: a host that was restored from a
// backup gives the same ID to another comment.
func ofAnother(p *pull, body string) bool {
	marked := strings.HasPrefix(body, plainMark) || strings.HasPrefix(body, htmlMark)
	return marked && !strings.HasPrefix(body, marker(p))
}

// alike reports whether two texts differ by the ends of lines only, which hosts change.
func alike(a, b string) bool { return trimmed(a) == trimmed(b) }

func trimmed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
