package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The users of the token file. The controller manager runs all controllers as itself here, which needs more permissions
// than its bootstrap role has.
const (
	adminUser     = "admin"
	managerUser   = "system:kube-controller-manager"
	schedulerUser = "system:kube-scheduler"
	masters       = "system:masters"
)

// writeTokens writes the API server's token file and returns the tokens by user. All but the administrator's are new at
// each start. The administrator is in additional groups.
func (id *identity) writeTokens(adminGroups []string) (map[string]string, error) {
	tokens := map[string]string{adminUser: id.admin}
	groups := map[string]string{adminUser: strings.Join(append([]string{masters}, adminGroups...), ","), managerUser: masters, schedulerUser: ""}
	var lines strings.Builder
	for user, group := range groups {
		if tokens[user] == "" {
			token, err := randomToken()
			if err != nil {
				return nil, err
			}
			tokens[user] = token
		}
		fmt.Fprintf(&lines, "%s,%s,%s", tokens[user], user, user)
		if group != "" {
			fmt.Fprintf(&lines, ",%q", group)
		}
		lines.WriteString("\n")
	}
	return tokens, os.WriteFile(filepath.Join(id.dir, tokensFile), []byte(lines.String()), 0o600)
}
