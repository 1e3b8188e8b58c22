// Package examples embeds the examples that commands write into a repository.
package examples

import "embed"

// CI are the pipelines that plan pull requests: ci/github-actions.yaml, ci/gitlab-ci.yaml and ci/gitea-actions.yaml.
//
//go:embed ci/*.yaml
var CI embed.FS
