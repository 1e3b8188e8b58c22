package reconcile

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// hidden are texts that are never said: what came out of Secrets. The zero value
// hides nothing.
type hidden struct {
	last  []string
	forms []string
}

// What is shorter than leastHidden is not told from any other word; what is shorter
// than leastWithin is hidden as a word, and not within longer ones.
const (
	leastHidden = 4
	leastWithin = 8
)

// mask stands for what is hidden.
const mask = "***"

// add hides what a pass has read. What the one before has read stays hidden: a
// controller that runs with it may still be told of.
func (h *hidden) add(secrets []string) {
	if slices.Equal(h.last, secrets) {
		return
	}
	var forms []string
	for _, secret := range append(slices.Clone(h.last), secrets...) {
		forms = append(forms, formsOf(strings.TrimSpace(secret))...)
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	h.last, h.forms = slices.Clone(secrets), slices.Compact(forms)
}

// formsOf are the ways in which messages write a text: as it is, in one line, line
// by line, quoted, as JSON, in a URL, in base64.
func formsOf(secret string) []string {
	if len(secret) < leastHidden {
		return nil
	}
	quoted := strconv.Quote(secret)
	forms := []string{
		secret, strings.Join(strings.Fields(secret), " "), quoted[1 : len(quoted)-1],
		url.PathEscape(secret), url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)),
	}
	if text, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(text[1:len(text)-1]))
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= leastWithin {
			forms = append(forms, line)
		}
	}
	return forms
}

// hide takes all of them out of a message.
func (h *hidden) hide(message string) string {
	for _, form := range h.forms {
		if len(form) < leastWithin {
			message = hideWord(message, form)
			continue
		}
		message = strings.ReplaceAll(message, form, mask)
	}
	return message
}

// hideWord takes a short text out where it stands by itself.
func hideWord(message, word string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(message, word)
		if !found {
			out.WriteString(message)
			return out.String()
		}
		left, _ := utf8.DecodeLastRuneInString(before)
		right, _ := utf8.DecodeRuneInString(after)
		out.WriteString(before)
		if inWord(left) || inWord(right) {
			out.WriteString(word)
		} else {
			out.WriteString(mask)
		}
		message = after
	}
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// fault is an error without what is hidden, of the class that it had.
func (h *hidden) fault(err *fault.Error) *fault.Error {
	if err == nil || h.hide(err.Error()) == err.Error() {
		return err
	}
	brief := err.Brief().Map(h.hide)
	return &fault.Error{Class: err.Class, Reason: err.Reason, Err: errors.New(h.hide(err.Error())), Short: &brief}
}

// hideSecrets takes what came out of Secrets from all that a pass is going to say.
// It is the one place, and comes before any of it is said.
func (p *pass) hideSecrets() {
	h := &p.memory.hidden
	if len(h.forms) == 0 {
		return
	}
	p.fault = h.fault(p.fault)
	for _, err := range []*error{&p.unpulled, &p.unwritten} {
		if *err != nil {
			*err = h.fault(fault.Classify(*err))
		}
	}
	for i := range p.waits {
		p.waits[i].message = h.hide(p.waits[i].message)
	}
	for i := range p.launchless {
		p.launchless[i].why = h.hide(p.launchless[i].why)
	}
	p.stages.crds.Message = h.hide(p.stages.crds.Message)
	p.stages.controller.Message = h.hide(p.stages.controller.Message)
	for ref, ready := range p.stages.objects {
		ready.Message = h.hide(ready.Message)
		p.stages.objects[ref] = ready
	}
	for i := range p.sync.Status.Removals {
		p.sync.Status.Removals[i].Message = h.hide(p.sync.Status.Removals[i].Message)
	}
	if k := p.sync.Status.Karpenter; k != nil && k.Target != nil {
		k.Target.Message = h.hide(k.Target.Message)
	}
	for i := range p.notes {
		p.notes[i].message = h.hide(p.notes[i].message)
	}
}
