package render

import (
	"path"
	"strings"
)

// FileName is the file that makes a folder a path of plumbline's.
const FileName = "plumbline.yaml"

// cleanPath returns a path as fs.FS wants it: ./clusters/prod → clusters/prod.
func cleanPath(name string) (string, error) {
	cleaned := path.Clean(strings.TrimLeft(name, "/"))
	if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
		return "", Errors{{File: name, Message: "the path leads out of the repository"}}
	}
	return cleaned, nil
}

// ConfigFile is plumbline.yaml of a folder, as Inputs name it; empty where that is outside of the repository.
func ConfigFile(folder string) string {
	cleaned, err := cleanPath(folder)
	if err != nil {
		return ""
	}
	return path.Join(cleaned, FileName)
}
