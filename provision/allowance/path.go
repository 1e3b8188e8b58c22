package allowance

import "strings"

// join puts a key behind a path. The keys of labels and annotations, which have dots
// and slashes in them, stand in brackets.
func join(at, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]") || keyed[at]:
		return at + "[" + unbracketed.Replace(key) + "]"
	case at == "":
		return key
	}
	return at + "." + key
}

// unbracketed keeps a key from ending its own brackets.
var unbracketed = strings.NewReplacer("[", `\[`, "]", `\]`)

// variableAt is the path of a variable of the controller.
func variableAt(name string) string { return environment + "[" + unbracketed.Replace(name) + "]" }

// keyed are the maps of labels and annotations.
var keyed = map[string]bool{
	"service.annotations": true, "serviceAccount.annotations": true, "podAnnotations": true, "podLabels": true,
	"additionalLabels": true, "additionalAnnotations": true,
}

// segments takes a path apart. It may be written with dots and with brackets:
// podLabels.token is podLabels[token], and behind a map of labels all is one key.
func segments(path string) []string {
	var all []string
	for rest := path; rest != ""; {
		var one string
		after, bracket := strings.CutPrefix(rest, "[")
		rest = strings.TrimPrefix(rest, ".")
		parent := strings.Join(all, ".")
		switch {
		case bracket:
			one, rest, _ = strings.Cut(after, "]")
		case keyed[parent] || parent == environment:
			one, rest = rest, ""
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			one, rest = rest[:end], rest[end:]
		}
		all = append(all, one)
	}
	return all
}
