// Package nearest finds the name that was most likely meant by a mistyped one.
package nearest

import "strings"

// maxTypos is the largest distance at which two names count as similar.
const maxTypos = 2

// Name returns the name that was most likely meant by a mistyped one; empty if none is close.
func Name(typed string, names []string) string {
	best, least := "", maxTypos+1
	for _, name := range names {
		distance := typos(strings.ToLower(typed), strings.ToLower(name))
		if distance < least && distance < len(name)/2 {
			best, least = name, distance
		}
	}
	return best
}

// typos returns the Levenshtein distance of two names.
func typos(a, b string) int {
	costs := make([]int, len(b)+1)
	for j := range costs {
		costs[j] = j
	}
	for i := range len(a) {
		diagonal := costs[0]
		costs[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = costs[j+1]
			costs[j+1] = min(replace, costs[j]+1, costs[j+1]+1)
		}
	}
	return costs[len(b)]
}
