package survey

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Besides are the values of a release that Git has not, or has otherwise, by their
// paths and in order. The cluster's name is filled in.
func (r Release) Besides(git map[string]any) []string {
	var paths []string
	var walk func(path string, has, git any)
	walk = func(path string, has, git any) {
		fields, ok := has.(map[string]any)
		if !ok {
			if plainly(has) != plainly(git) {
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

// plainly is a value as JSON has it, so that 1 is 1 whoever has read it.
func plainly(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
