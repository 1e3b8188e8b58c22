package handover

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/plumbline-dev/plumbline/render/document"
)

// kustomization is the file of a folder that names those it is made of; empty where there is none.
func (f Files) kustomization(folder string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if _, ok := f[path.Join(folder, name)]; ok {
			return path.Join(folder, name)
		}
	}
	return ""
}

// resources are what a kustomization names.
func (f Files) resources(file string) ([]string, error) {
	documents, err := document.Parse(f[file])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var found []string
	for _, one := range documents {
		fields, _ := one.Value.(map[string]any)
		items, _ := fields["resources"].([]any)
		for _, item := range items {
			found = append(found, fmt.Sprint(item))
		}
	}
	return found, nil
}

// unlist takes a file that is gone out of the kustomizations above it, as far as a folder; of these those
// that are left empty go as well.
func (f Files) unlist(folder, file string) error {
	for above := path.Dir(file); below(folder, path.Join(above, "x")); above = path.Dir(above) {
		if in := f.kustomization(above); in != "" {
			name := strings.TrimPrefix(file, above+"/")
			line := regexp.MustCompile(`(?m)^[ ]*-[ ]+["']?(\./)?` + regexp.QuoteMeta(name) + `["']?[ ]*(#.*)?\r?\n?`)
			was := len(f[in])
			if err := f.relist(in, line.ReplaceAllLiteral(f[in], nil), name, false); err != nil {
				return err
			}
			if len(f[in]) != was && f.dropEmpty(in) {
				file = above // the kustomization above this one names its folder
			}
		}
		if above == "." {
			break
		}
	}
	return nil
}

// list names a new file in the kustomization of its folder, where it has one.
func (f Files) list(folder, file string) error {
	in := f.kustomization(path.Clean(folder))
	if in == "" {
		return nil
	}
	name := strings.TrimPrefix(file, path.Clean(folder)+"/")
	at := regexp.MustCompile(`(?m)^resources:[ ]*(#.*)?\r?\n([ ]*)-`).FindSubmatchIndex(f[in])
	if at == nil {
		return byHand(in, name, true)
	}
	item := at[4] // where the first one's line begins
	line := append(append([]byte{}, f[in][at[4]:at[5]]...), "- "+name+"\n"...)
	return f.relist(in, bytes.Join([][]byte{f[in][:item], line, f[in][item:]}, nil), name, true)
}

// relist takes another text for a kustomization, which has to name just that file more, or less.
func (f Files) relist(in string, text []byte, name string, more bool) error {
	before, err := f.resources(in)
	if err != nil {
		return err
	}
	named := false
	for _, one := range before {
		named = named || path.Clean(one) == name
	}
	if named == more {
		return nil
	}
	was := f[in]
	f[in] = text
	after, err := f.resources(in)
	if change := len(after) - len(before); err != nil || more && change != 1 || !more && change != -1 {
		f[in] = was
		return byHand(in, name, more)
	}
	return nil
}

func byHand(in, name string, more bool) error {
	if more {
		return fmt.Errorf("%s has to name %s among its resources, and its text is of another form: make this commit by hand", in, name)
	}
	return fmt.Errorf("%s names %s among its resources in another form than a line of its own: make this commit by hand", in, name)
}
