package kustomize

import (
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/plumbline-dev/plumbline/render/document"
)

// LocalAnnotation with any value but "false" keeps an object out of what a build
// makes.
const LocalAnnotation = konfig.IgnoredByKustomizeAnnotation

// originAnnotation tells where an object was written. kustomize sets it as it reads a
// file, over what the file says: api/internal/utils/annotations.go.
const originAnnotation = "config.kubernetes.io/origin"

// reserved are annotations by which a build goes, with the reason why none of what it does to
// objects may set them.
var reserved = []struct{ name, why string }{
	{LocalAnnotation, "it sets the annotation " + LocalAnnotation + ", by which kustomize leaves definitions out, and their nodes would be drained: take it out, or the definitions"},
	{originAnnotation, "it sets the annotation " + originAnnotation + ", by which kustomize says where an object is from: take it out"},
}

// WhyReserved says why a patch, or the text of replacements, is refused: it names a reserved
// annotation, however it is written. Empty where it does not.
func WhyReserved(text []byte) string {
	if why := whyReserved(string(text)); why != "" {
		return why
	}
	documents, err := document.Parse(text)
	if err != nil {
		return "" // kustomize says what is wrong
	}
	for _, one := range documents {
		if why := whyReserved(stringsOf(one.Value)...); why != "" {
			return why
		}
	}
	return ""
}

// escapes of a JSON pointer (RFC 6901), and of the path of a replacement.
var escapes = strings.NewReplacer("~1", "/", `\`, "")

func whyReserved(texts ...string) string {
	for _, text := range texts {
		for _, annotation := range reserved {
			if strings.Contains(escapes.Replace(text), annotation.name) {
				return annotation.why
			}
		}
	}
	return ""
}

// stringsOf are all strings in a value, keys too.
func stringsOf(value any) []string {
	var all []string
	switch value := value.(type) {
	case string:
		all = append(all, value)
	case map[string]any:
		for key, field := range value {
			all = append(append(all, key), stringsOf(field)...)
		}
	case []any:
		for _, item := range value {
			all = append(all, stringsOf(item)...)
		}
	}
	return all
}
