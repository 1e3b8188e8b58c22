package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkCharacters refuses characters that the API server takes in no applied definition: it reads these as YAML, which
// knows them only as escapes (go.yaml.in/yaml/v2 readerc.go), and JSON has them as they are.
func checkCharacters(kind Kind, content map[string]any) []problem {
	if !anyText(content, hasUnreadable) {
		return nil
	}
	var found []problem
	for _, at := range unreadableIn("", content) {
		found = append(found, problem{at.path, fmt.Sprintf(
			"%s: %s has the character %U, which the API server takes in no definition: leave it out, and encode what is binary", kind.GVK.Kind, at.path, at.character)})
	}
	return found
}

// unreadable is a character, and where it is.
type unreadable struct {
	path      string
	character rune
}

// unreadableIn are the first such character of each text, keys included.
func unreadableIn(path string, value any) (found []unreadable) {
	switch v := value.(type) {
	case string:
		if i := strings.IndexFunc(v, isUnreadable); i >= 0 {
			found = append(found, unreadable{path, []rune(v[i:])[0]})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if i := strings.IndexFunc(key, isUnreadable); i >= 0 {
				found = append(found, unreadable{path, []rune(key[i:])[0]})
			}
			found = append(found, unreadableIn(below(path, key), v[key])...)
		}
	case []any:
		for i, entry := range v {
			found = append(found, unreadableIn(fmt.Sprintf("%s[%d]", path, i), entry)...)
		}
	}
	return found
}

// below is the path of a field.
func below(path, key string) string {
	switch {
	case path == "":
		return key
	case strings.Contains(key, "."):
		return path + "[" + key + "]"
	}
	return path + "." + key
}

func hasUnreadable(text string) bool { return strings.ContainsFunc(text, isUnreadable) }

func isUnreadable(r rune) bool {
	return r == 0x7f || r >= 0x80 && r <= 0x9f && r != 0x85 || r == 0xfffe || r == 0xffff
}
