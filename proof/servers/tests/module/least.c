/* The least that a server takes for a module: it has a name. */

typedef int (*get_api)(const char *name, void *function);
typedef void (*set_attributes)(void *context, const char *name, int version, int api);

int RedisModule_OnLoad(void *context, void **args, int count) {
    /* The way to everything else is the first field of the context. */
    get_api get = *(get_api *)context;
    set_attributes set = 0;
    (void)args;
    (void)count;
    if (get("RedisModule_SetModuleAttribs", &set) != 0) {
        return 1;
    }
    set(context, "least", 1, 1);
    return 0;
}
