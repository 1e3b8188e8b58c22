package main

import "strings"

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
