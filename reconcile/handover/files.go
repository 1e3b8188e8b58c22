package handover

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/document"
)

// Files are the files of a repository, by path. Files for which Reads is false may be without their text.
type Files map[string][]byte

// place is the location of a definition: a document in a file, with its content.
type place struct {
	file  string
	index int
	value map[string]any
}

// Has reports whether a folder has a definition in one of its YAML files.
func (f Files) Has(folder string, ref render.Ref) (bool, error) {
	found, err := f.find(folder, ref)
	return len(found) > 0, err
}

// Marked reports whether the definition in one of two folders has the mark; false if neither has the definition.
func (f Files) Marked(folders []string, ref render.Ref, mark owners.Mark) (bool, error) {
	any := false
	for _, folder := range folders {
		found, err := f.find(folder, ref)
		if err != nil {
			return false, err
		}
		for _, at := range found {
			if any = true; !mark.In(annotation(at.value, mark.Key)) {
				return false, nil
			}
		}
	}
	return any, nil
}

// Mark returns the files with the mark added to a definition, wherever it is.
func (f Files) Mark(folders []string, ref render.Ref, mark owners.Mark) (Files, error) {
	return f.annotate(folders, ref, func(text []byte, value string) ([]byte, error) {
		return document.Set(text, mark.With(value), "metadata", "annotations", mark.Key)
	}, mark)
}

// Unmark returns the files without it.
func (f Files) Unmark(folders []string, ref render.Ref, mark owners.Mark) (Files, error) {
	return f.annotate(folders, ref, func(text []byte, value string) ([]byte, error) {
		if rest := mark.Without(value); rest != "" {
			return document.Set(text, rest, "metadata", "annotations", mark.Key)
		}
		return document.Unset(text, "metadata", "annotations", mark.Key)
	}, mark)
}

func (f Files) annotate(
	folders []string, ref render.Ref, edit func(text []byte, value string) ([]byte, error), mark owners.Mark,
) (Files, error) {
	after := maps.Clone(f)
	any := false
	for _, folder := range folders {
		found, err := f.find(folder, ref)
		if err != nil {
			return nil, err
		}
		for _, at := range found {
			parts := split(after[at.file])
			edited, err := edit(parts[at.index], annotation(at.value, mark.Key))
			if err != nil {
				return nil, fmt.Errorf("annotate %s in %s: %w", ref, at.file, err)
			}
			parts[at.index] = edited
			after[at.file], any = bytes.Join(parts, nil), true
		}
	}
	if !any {
		return nil, missing(ref, folders)
	}
	return after, nil
}

func missing(ref render.Ref, folders []string) error {
	return fmt.Errorf("%s is in no YAML file below %s: it is generated, or the clone is of another repository or branch; make this commit by hand", ref, strings.Join(cleaned(folders), " or "))
}

// Move returns the files with definitions moved from one folder to the other, unchanged. Other content of their files
// stays there. lives are the definitions in the cluster: if a file differs from them, the other tool would not apply
// the same definition. A folder whose last file moves is kept in Git.
func (f Files) Move(from, to string, refs []render.Ref, lives map[render.Ref]map[string]any) (Files, error) {
	after := maps.Clone(f)
	moving := map[string]map[int]bool{}
	for _, ref := range refs {
		there, err := f.find(from, ref)
		if err != nil {
			return nil, err
		}
		here, err := f.find(to, ref)
		switch {
		case err != nil:
			return nil, err
		case len(there) == 0:
			return nil, missing(ref, []string{from})
		case len(there) > 1:
			return nil, fmt.Errorf("%s is defined twice, in %s and %s: remove one of them first", ref, there[0].file, there[1].file)
		}
		if at := differs(there[0].value["spec"], lives[ref]["spec"], "spec"); at != "" {
			return nil, fmt.Errorf("%s in %s differs from the cluster at %s (a patch, a variable, or a commit that is not applied yet): change the file to match the cluster, then try again", ref, there[0].file, at)
		}
		if moving[there[0].file] == nil {
			moving[there[0].file] = map[int]bool{}
		}
		moving[there[0].file][there[0].index] = len(here) == 0 // else it is there already
	}
	for file, documents := range moving {
		if err := after.moveOut(file, documents, from, to); err != nil {
			return nil, err
		}
	}
	after.keep(from)
	after.unkeep(to)
	return after, nil
}

// moveOut removes documents from a file, and adds those with the value true to the file of the same name in another
// folder.
func (f Files) moveOut(file string, documents map[int]bool, from, to string) error {
	var stays, goes [][]byte
	rest := false
	for i, part := range split(f[file]) {
		if put, moves := documents[i]; !moves {
			stays, rest = append(stays, part), rest || holds(part)
		} else if put {
			goes = append(goes, part)
		}
	}
	text := bytes.Join(goes, nil)
	if !rest && len(goes) == len(documents) {
		text = f[file] // unchanged, with its comments
	}
	if f[file] = bytes.Join(stays, nil); !rest {
		delete(f, file)
		if err := f.unlist(from, file); err != nil {
			return err
		}
	}
	if len(goes) == 0 {
		return nil
	}
	into := path.Join(to, path.Base(file))
	if _, exists := f[into]; exists {
		return fmt.Errorf("%s exists, but %s would move there: rename one of them first", into, file)
	}
	f[into] = text
	return f.list(to, into)
}

// find returns the places of a definition below a folder.
func (f Files) find(folder string, ref render.Ref) ([]place, error) {
	var found []place
	for _, file := range slices.Sorted(maps.Keys(f)) {
		if !below(folder, file) {
			continue
		}
		for i, part := range split(f[file]) {
			documents, err := document.Parse(part)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			for _, one := range documents {
				value, _ := one.Value.(map[string]any)
				metadata, _ := value["metadata"].(map[string]any)
				if value["kind"] == ref.Kind && metadata["name"] == ref.Name && len(documents) == 1 {
					found = append(found, place{file, i, value})
				}
			}
		}
	}
	return found, nil
}

// below reports whether a file is in a folder, or below it.
func below(folder, file string) bool {
	folder = path.Clean(folder)
	return folder == "." || strings.HasPrefix(file, folder+"/")
}

var separator = regexp.MustCompile(`(?m)^---(\s|$)`)

// split splits a text into its documents, each with its separator line.
func split(text []byte) [][]byte {
	var parts [][]byte
	from := 0
	for _, at := range separator.FindAllIndex(text, -1) {
		if at[0] > from {
			parts = append(parts, text[from:at[0]])
			from = at[0]
		}
	}
	return append(parts, text[from:])
}

// holds reports whether a part contains anything except comments.
func holds(part []byte) bool {
	documents, err := document.Parse(part)
	return err != nil || len(documents) > 0
}

func annotation(object map[string]any, key string) string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

// differs returns where a file differs from the live object, which also has defaults; empty if nowhere.
func differs(says, lives any, at string) string {
	switch says := says.(type) {
	case map[string]any:
		fields, _ := lives.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(says)) {
			if found := differs(says[key], fields[key], at+"."+key); found != "" {
				return found
			}
		}
		return ""
	case []any:
		items, _ := lives.([]any)
		if len(items) != len(says) {
			return at
		}
		for i := range says {
			if found := differs(says[i], items[i], fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
		return ""
	}
	if reflect.DeepEqual(says, lives) || lives != nil && fmt.Sprint(says) == fmt.Sprint(lives) {
		return ""
	}
	return at
}

func cleaned(folders []string) []string {
	found := make([]string, 0, len(folders))
	for _, folder := range folders {
		found = append(found, path.Clean(folder))
	}
	return found
}
