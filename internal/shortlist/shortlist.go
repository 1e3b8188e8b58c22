// Package shortlist names the first few of many, and counts the rest: "a, b and 3 more".
package shortlist

import (
	"fmt"
	"slices"
	"strings"
)

// Join joins the first words, up to most, and counts the rest: "a, b and 3 more".
func Join(words []string, most int, separator string) string {
	named := strings.Join(words[:min(most, len(words))], separator)
	return named + More(" ", len(words)-most)
}

// Items is Join with the count as a separate item: "a; b; and 3 more".
func Items(words []string, most int, separator string) string {
	return strings.Join(Cut(words, most), separator)
}

// Cut returns the first words, up to most, and the count of the rest as another word.
func Cut(words []string, most int) []string {
	if len(words) <= most {
		return words
	}
	return append(slices.Clone(words[:most]), More("", len(words)-most))
}

// More returns the count of what is not named, after a separator: "and 3 more". It is empty if everything is named.
func More(before string, count int) string {
	if count <= 0 {
		return ""
	}
	return fmt.Sprintf("%sand %d more", before, count)
}
