package charts

import (
	"fmt"
	"regexp"
)

// plainName is what files and charts within a chart may be called. Helm writes the name
// of each template into the manifest, as a comment: one with a line break would put
// objects there.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._+@/-]+$`)

// checkName refuses a name that is more than letters, digits and the marks of names.
func checkName(name string) error {
	if plainName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("it contains a file with the name %.100q: only letters, digits and . _ + @ - are allowed in names", name)
}
