package grafana

import "github.com/llmtap/llmtap/dashboards/queries"

// pluginVersion is the version of the ClickHouse data source for which the queries are written.
const pluginVersion = "4.20.0"

// object is a JSON object.
type object map[string]any

// A source is a data source, chosen by a variable of the dashboard. uid and name are those in deploy/grafana.
type source struct{ plugin, variable, label, uid, name string }

var (
	clickhouse = source{"grafana-clickhouse-datasource", "clickhouse", "ClickHouse", "llmtap-clickhouse", "llmtap ClickHouse"}
	tallies    = source{"prometheus", "llmtap", "llmtap", "llmtap", "llmtap"}
	metrics    = source{"prometheus", "metrics", "Metrics of llmtap", "llmtap-metrics", "Prometheus"}
)

func (s source) ref() object { return object{"type": s.plugin, "uid": "${" + s.variable + "}"} }

// A panel is a panel with one query.
type panel struct {
	title, description string
	kind               string // type of the panel: timeseries, stat or table
	source             source
	query              string // SQL or PromQL
	legend             string // of PromQL
	unit               string
	stacked            bool
	bad                float64           // threshold of red; 0: none
	links              map[string]string // column to the path of llmtap's page, for tables
	units              map[string]string // column to unit, for tables
	width, height      int               // of the grid of 24 columns; 0: 12 by 8
	empty              string            // what the absence of data means
}

// A dashboard is one file.
type dashboard struct {
	name, title, description string
	sources                  []source
	filters                  []filter
	variables                []object
	panels                   []panel
	since                    string
}

// A filter is a variable whose values come from the data.
type filter struct {
	name, label string
	source      source
}

// json returns the dashboard as Grafana imports it.
func (d dashboard) json() object {
	list := []object{}
	for _, s := range d.sources {
		list = append(list, object{"name": s.variable, "label": s.label, "type": "datasource", "query": s.plugin, "refresh": 1, "current": object{"text": s.name, "value": s.uid}, "options": []any{}, "includeAll": false, "multi": false, "hide": 0, "regex": "", "skipUrlSync": false})
	}
	for _, f := range d.filters {
		v := object{
			"name": f.name, "label": f.label, "type": "query", "datasource": f.source.ref(), "refresh": 2, "includeAll": true, "multi": true, "hide": 0, "sort": 1, "regex": "", "skipUrlSync": false,
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}}, "options": []any{},
		}
		if f.source.plugin == "prometheus" {
			q := "label_values(llmtap_calls_total, " + f.name + ")"
			v["query"], v["allValue"] = object{"query": q, "refId": "variable"}, ".*"
		} else {
			q := "SELECT DISTINCT " + f.name + " FROM exchanges WHERE $__timeFilter(started_at) AND " + f.name + " != '' ORDER BY " + f.name + " LIMIT 1000"
			v["query"] = q
		}
		list = append(list, v)
	}
	list = append(list, object{
		"name": "pages", "label": "URL of llmtap's pages", "type": "textbox", "query": "http://localhost:8090", "hide": 0, "skipUrlSync": false,
		"current": object{"text": "http://localhost:8090", "value": "http://localhost:8090"}, "options": []any{},
	})
	list = append(list, d.variables...)
	panels := []object{}
	x, y, row := 0, 0, 0
	for i, p := range d.panels {
		w, h := p.width, p.height
		if w == 0 {
			w = 12
		}
		if h == 0 {
			h = 8
		}
		if x+w > 24 {
			x, y, row = 0, y+row, 0
		}
		panels = append(panels, p.json(i+1, object{"x": x, "y": y, "w": w, "h": h}))
		x, row = x+w, max(row, h)
	}
	return object{
		"uid": "llmtap-" + d.name, "title": d.title, "description": d.description, "tags": []string{"llmtap"}, "schemaVersion": 39, "version": 1,
		"editable": true, "graphTooltip": 1, "timezone": "browser", "refresh": "30s", "time": object{"from": "now-" + d.since, "to": "now"},
		"fiscalYearStartMonth": 0, "templating": object{"list": list}, "annotations": object{"list": []any{}}, "panels": panels,
		"links": []object{
			{"type": "dashboards", "title": "llmtap", "tags": []string{"llmtap"}, "asDropdown": true, "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "", "url": ""},
			{"type": "link", "title": "Pages of llmtap", "url": "${pages}", "tags": []string{}, "asDropdown": false, "includeVars": false, "keepTime": false, "targetBlank": true, "icon": "external link", "tooltip": "The fleet in llmtap itself"},
		},
	}
}

func (p panel) json(id int, grid object) object {
	steps := []object{{"color": "green", "value": nil}}
	if p.bad > 0 {
		steps = append(steps, object{"color": "red", "value": p.bad})
	}
	defaults := object{"unit": p.unit, "thresholds": object{"mode": "absolute", "steps": steps}, "mappings": []any{}, "color": object{"mode": "palette-classic"}}
	if p.unit == "percentunit" {
		defaults["min"] = 0
	}
	if p.empty != "" {
		defaults["noValue"] = p.empty
	}
	options := object{}
	overrides := []object{}
	switch p.kind {
	case "timeseries":
		stacking := "none"
		fill := 0
		if p.stacked {
			stacking, fill = "normal", 30
		}
		defaults["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "auto", "stacking": object{"mode": stacking, "group": "A"}}
		options = object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []any{}}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case "stat":
		if p.bad > 0 {
			defaults["color"] = object{"mode": "thresholds"}
		}
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto"}
	case "table":
		defaults["color"] = object{"mode": "thresholds"}
		options = object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false, "reducer": []string{"sum"}, "countRows": false, "fields": ""}}
		for _, column := range sorted(p.units) {
			overrides = append(overrides, object{"matcher": object{"id": "byName", "options": column}, "properties": []object{{"id": "unit", "value": p.units[column]}}})
		}
		for _, column := range sorted(p.links) {
			link := object{"title": "Open in llmtap", "url": "${pages}" + p.links[column], "targetBlank": true}
			overrides = append(overrides, object{"matcher": object{"id": "byName", "options": column}, "properties": []object{{"id": "links", "value": []object{link}}}})
		}
	}
	target := object{"refId": "A", "datasource": p.source.ref()}
	if p.source.plugin == "prometheus" {
		target["expr"], target["legendFormat"], target["editorMode"] = p.query, p.legend, "code"
		target["range"], target["instant"] = p.kind != "table", p.kind == "table"
		if p.kind == "table" {
			target["format"] = "table"
		}
	} else {
		format := 0 // a time series for each text column
		if p.kind == "table" {
			format = 1
		}
		target["rawSql"], target["editorType"], target["pluginVersion"], target["format"] = queries.Expand(p.query), "sql", pluginVersion, format
	}
	return object{
		"id": id, "type": p.kind, "title": p.title, "description": p.description, "gridPos": grid, "datasource": p.source.ref(),
		"fieldConfig": object{"defaults": defaults, "overrides": overrides}, "options": options, "targets": []object{target}, "transparent": false,
	}
}
