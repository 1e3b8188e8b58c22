package render

import (
	"fmt"
	"path"
	"strings"
)

// FileName is the file that makes a folder a path of plumbline's.
const FileName = "plumbline.yaml"

// cleanPath returns a path as fs.FS wants it: ./clusters/prod → clusters/prod.
func cleanPath(name string) (string, error) {
	cleaned := path.Clean(strings.TrimLeft(name, "/"))
	if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
		return "", fmt.Errorf("path %q leads out of the repository", name)
	}
	return cleaned, nil
}

// within says whether a clean path is a folder or lies below it.
func within(folder, name string) bool {
	return folder == "." || name == folder || strings.HasPrefix(name, folder+"/")
}
