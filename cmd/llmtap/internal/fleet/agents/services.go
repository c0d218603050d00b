package agents

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// onOldVersion reports whether task i of checkout-agent runs on the old version. The first task runs before the rollout,
// and a few run on a remaining old instance.
func onOldVersion(i int) bool { return i == 0 || i%30 == 20 }

// maxSkipped is the number of refunds that support-agent does not run. The MissingToolReplies alert requires one more in 30
// minutes, so the demo has one alert on a machine of any speed.
const maxSkipped = 4

// skipsRefund reports whether task i of support-agent has a refund that needs approval.
func skipsRefund(i int) bool { return i%12 == 5 && i/12 < maxSkipped }

// A service defines the tasks of one service.
type service struct {
	name     string
	versions []string // the last version is the current one
	path     string   // path of the provider
	model    string
	tasks    func(cfg *Config) int
	// task returns the version (an index in versions) and the stages of the i-th task.
	task func(i int, id string, rng *rand.Rand) (version int, stages []conversation)
}

var services = []service{checkout, research, support}

var checkout = service{
	name: "checkout-agent", versions: []string{"2.3.9", "2.4.0"}, path: provider.DeepSeekPath, model: "deepseek-chat",
	tasks: func(cfg *Config) int { return cfg.Tasks * 3 / 2 },
	task: func(i int, id string, rng *rand.Rand) (int, []conversation) {
		version, save := 1, dropsToolCalls()
		if onOldVersion(i) {
			version, save = 0, healthy
		}
		steps := 0 // some orders need no plan
		if i%10 != 9 {
			steps = 1 + rng.IntN(3)
		}
		return version, []conversation{
			{
				stage: planner, system: "You plan how to check an order out.", user: todo("Plan order "+id, steps, "read_cart", "read_stock", "price_items"),
				tools: []string{"read_cart", "read_stock", "price_items"}, saver: save,
			},
			{
				stage: executor, system: "You carry a plan out.", user: todo("Check order "+id+" out", 2, "reserve_items", "charge_card"),
				tools: []string{"reserve_items", "charge_card"}, saver: healthy,
			},
			{stage: summariser, system: "You write to the customer.", user: "Sum order " + id + " up.", stream: true, saver: healthy},
		}
	},
}

var research = service{
	name: "research-agent", versions: []string{"1.8.2"}, path: provider.OpenAIPath, model: "gpt-5-mini",
	tasks: func(cfg *Config) int { return cfg.Tasks },
	task: func(i int, id string, rng *rand.Rand) (int, []conversation) {
		sources := 2 + rng.IntN(3)
		if i%8 == 6 { // a question with so many sources that the history is compacted
			sources = 9
		}
		return 0, []conversation{
			{
				stage: planner, system: "You plan a piece of research.", user: todo("Plan question "+id, 1+rng.IntN(2), "search_web", "search_library"),
				tools: []string{"search_web", "search_library"}, saver: healthy,
			},
			{
				stage: executor, system: "You read sources.", user: todo("Answer question "+id, sources, "read_page", "read_paper"),
				tools: []string{"read_page", "read_paper"}, saver: keepsLast(),
			},
			{stage: summariser, system: "You write the answer.", user: "Sum question " + id + " up.", stream: true, saver: healthy},
		}
	},
}

var support = service{
	name: "support-agent", versions: []string{"0.31.0"}, path: provider.DeepSeekPath, model: "deepseek-chat",
	tasks: func(cfg *Config) int { return cfg.Tasks },
	task: func(i int, id string, rng *rand.Rand) (int, []conversation) {
		// Most tickets need only lookups. A few end in a refund, which may need approval, and a few in a notification.
		steps := []string{"lookup_order", "check_policy", "lookup_order", "search_articles"}[:2+rng.IntN(3)]
		switch i % 12 {
		case 2, 5:
			steps = append(steps, toolRefund)
		case 9:
			steps = append(steps, toolNotify)
		}
		return 0, []conversation{
			{
				stage: planner, system: "You sort tickets.", user: todo("Plan ticket "+id, 1+rng.IntN(2), "read_ticket"),
				tools: []string{"read_ticket"}, stream: true, saver: healthy,
			},
			{
				stage: executor, system: "You solve tickets.", user: todo("Solve ticket "+id, len(steps), steps...),
				tools: []string{"lookup_order", "check_policy", "search_articles", toolRefund, toolNotify}, saver: twoNodes(skipsRefund(i)),
			},
			{stage: summariser, system: "You write to the customer.", user: "Sum ticket " + id + " up.", stream: true, saver: healthy},
		}
	},
}

// todo returns a user message with n steps that name the tools in turn.
func todo(title string, n int, tools ...string) string {
	var b strings.Builder
	b.WriteString(title + ":")
	for i := range n {
		fmt.Fprintf(&b, "\n- %s for item %d", tools[i%len(tools)], i+1)
	}
	return b.String()
}

// perform runs the stages of one task until one fails.
func perform(ctx context.Context, a *agent, id string, stages []conversation) {
	ctx = llmtap.WithRun(ctx, id)
	for _, c := range stages {
		c.id = id + "-" + c.stage
		if ctx.Err() != nil || !a.converse(ctx, c) {
			return
		}
	}
}
