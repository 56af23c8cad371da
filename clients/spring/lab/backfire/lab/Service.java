package backfire.lab;

import backfire.inventory.InventoryService;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** The service as it is, with these properties, in this process. */
final class Service implements AutoCloseable {
    final Probe probe = new Probe();
    private final ConfigurableApplicationContext context;

    /** {@code properties} are the names of {@code application.yml}, those in capitals too. */
    Service(Map<String, String> properties) {
        List<String> arguments = new ArrayList<>();
        properties.forEach((name, value) -> arguments.add("--" + name + "=" + value));
        arguments.add("--spring.main.register-shutdown-hook=false");
        context = new SpringApplicationBuilder(InventoryService.class)
                .logStartupInfo(false)
                .initializers(starting -> starting.getBeanFactory().registerSingleton("probe", probe))
                .run(arguments.toArray(String[]::new));
    }

    @Override
    public void close() {
        context.close();
    }
}
