package survey

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ValuesNotIn are the values of a release that Git lacks or has otherwise, by their paths
// and in order, without the cluster's name, which plumbline fills in.
func (r Release) ValuesNotIn(git map[string]any) []string {
	var paths []string
	var walk func(path string, has, git any)
	walk = func(path string, has, git any) {
		fields, ok := has.(map[string]any)
		if !ok {
			if asJSON(has) != asJSON(git) {
				paths = append(paths, path)
			}
			return
		}
		inGit, _ := git.(map[string]any)
		for key, value := range fields {
			walk(strings.TrimPrefix(path+"."+key, "."), value, inGit[key])
		}
	}
	walk("", r.Values, git)
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "settings.clusterName" })
	slices.Sort(paths)
	return paths
}

// asJSON is a value in JSON, so that numbers of different types are equal.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
