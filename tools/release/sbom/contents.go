package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.elastic.co/go-licence-detector/dependency"
	"go.elastic.co/go-licence-detector/detector"
)

// contents are the modules that a binary is linked from.
type contents struct {
	name, sha256 string
	created      time.Time
	main         component
	components   []component
}

// component is a module.
type component struct {
	path, version string
	// sum is the SHA-256 of the module's tree in hexadecimal, from go.sum's h1; empty if it has none.
	sum     string
	licence string
}

// purl returns the package URL of a module (https://github.com/package-url/purl-spec).
func (c component) purl() string { return "pkg:golang/" + c.path + "@" + c.version }

// read reads the modules of a binary.
func read(binary string, licences map[string]string) (contents, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return contents{}, fmt.Errorf("read what %s is linked from: %w", binary, err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return contents{}, err
	}
	hash := sha256.Sum256(data)
	c := contents{
		name: filepath.Base(binary), sha256: hex.EncodeToString(hash[:]), main: component{path: info.Main.Path, licence: "Apache-2.0"},
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		sum, err := hexadecimal(module.Sum)
		if err != nil {
			return contents{}, fmt.Errorf("read the hash of %s: %w", module.Path, err)
		}
		c.components = append(c.components, component{path: module.Path, version: module.Version, sum: sum, licence: licences[module.Path]})
	}
	c.components = append(c.components, component{path: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go"), licence: "BSD-3-Clause"})
	return c, nil
}

func hexadecimal(sum string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	return hex.EncodeToString(raw), err
}

// licenceFiles are the files for reading licences.
type licenceFiles struct{ modules, rules, overrides string }

// read returns the licences of the modules, by their paths. A licence that is unknown or that the rules do not allow is
// an error.
func (f licenceFiles) read() (map[string]string, error) {
	classifier, err := detector.NewClassifier("")
	if err != nil {
		return nil, fmt.Errorf("set up the classifier of licences: %w", err)
	}
	rules, err := detector.LoadRules(f.rules)
	if err != nil {
		return nil, err
	}
	overrides, err := dependency.LoadOverrides(f.overrides)
	if err != nil {
		return nil, err
	}
	modules, err := os.Open(f.modules)
	if err != nil {
		return nil, err
	}
	defer func() { _ = modules.Close() }()
	found, err := detector.Detect(modules, classifier, rules, overrides, true)
	if err != nil {
		return nil, err
	}
	licences := map[string]string{}
	for _, info := range append(found.Direct, found.Indirect...) {
		licences[info.Name] = info.LicenceType
	}
	return licences, nil
}
