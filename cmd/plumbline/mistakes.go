package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/redact"
)

// mistakes are the lines of what is wrong with a commit, each once: the first line of the message, which
// is for places with room for one, says the first of them again, and how many more there are.
func mistakes(message string) []string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	if len(lines) > 1 && repeats(lines[0], lines[1]) {
		return lines[1:]
	}
	return lines
}

// repeats says that a line is the beginning of the next one, but for "(and 2 more)".
func repeats(first, next string) bool {
	if at := strings.LastIndex(first, " (and "); at > 0 && strings.HasSuffix(first, " more)") {
		first = first[:at]
	}
	return strings.HasPrefix(next, strings.TrimSuffix(first, "…"))
}

// printRefusals says what the daemon does not do, and why.
func (r planReport) printRefusals(out io.Writer) {
	refused := func(why string) string {
		return redact.Visible(strings.TrimPrefix(strings.TrimPrefix(why, "refused: "), "refused, "))
	}
	switch {
	case r.Waits:
		fmt.Fprintln(out, "waits: "+redact.Visible(strings.TrimPrefix(r.Stopped, "waiting for ")))
	case r.Stopped != "":
		lines := mistakes(refused(r.Stopped))
		if len(lines) == 1 {
			fmt.Fprintln(out, "refused as a whole: "+lines[0])
			break
		}
		fmt.Fprintln(out, strings.Join(lines, "\n"))
		fmt.Fprintln(out, "refused as a whole: "+english.Plural(len(lines), "error", ""))
	}
	if r.ChartsRefused != "" {
		fmt.Fprintln(out, "the charts are not changed: "+refused(r.ChartsRefused))
	}
}
